"""Feeds of a run from command-line arguments: files, literal values, and random numbers for the rest."""

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, Array, from_ort_name, to_numpy
from ort_lite.errors import InvalidArgument, hint
from ort_lite.load.files import open_file, read_file, words
from ort_lite.session.metadata import NodeArg
from ort_lite.tools.cli.pairs import pairs

LENGTH = 16
"""Of a free dimension that is called like the length of a text."""
_LENGTHS = re.compile("seq|len|tok", re.IGNORECASE)
_OTHER_LENGTHS = re.compile("past|total|cache", re.IGNORECASE)
IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")


def feeds_of(
    arguments: Namespace, inputs: Sequence[NodeArg], sizes: Mapping[str, int] | None = None, known: bool = True
) -> dict[str, Any]:
    """Return the feeds given by --feeds, --input and --value, and random ones for other inputs, with the shapes of --shape and
    --dim.

    `sizes` are those of free dimensions without a --dim. Raises InvalidArgument if a file cannot be read and, if `known`, for names
    that are not inputs of the model.
    """
    _check_dims(arguments, inputs, known)
    given = _read_files(arguments, inputs, known)
    shapes = _by_input(arguments.shape, "--shape", inputs, known)
    values = _by_input(arguments.value, "--value", inputs, known)
    dims = {**(sizes or {}), **dims_of(arguments)}
    rng = np.random.default_rng(arguments.seed)
    made: dict[str, Any] = {}
    for arg in inputs:
        shape = _shape(arg, shapes[arg.name]) if arg.name in shapes else [_size_of(dim, dims) for dim in arg.shape]
        if arg.name in given:
            made[arg.name] = given[arg.name]
        elif arg.name in values:
            made[arg.name] = _fill(arg, values[arg.name], shape)
        else:
            made[arg.name] = random(arg, shape, rng)
    return made


def dims_of(arguments: Namespace) -> dict[str, int]:
    """Return the sizes of --dim, by name."""
    return {name: _number(f"--dim {name}={value}", value) for name, value in pairs(arguments.dim, "--dim")}


def dims_of_feeds(inputs: Sequence[NodeArg], feeds: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of free dimensions that have a name, as the feeds have them."""
    shapes = [(arg.shape, feeds[arg.name].shape) for arg in inputs if hasattr(feeds.get(arg.name), "shape")]
    return {dim: size for given, fed in shapes for dim, size in zip(given, fed, strict=False) if isinstance(dim, str)}


def lengths(inputs: Sequence[NodeArg], given: Mapping[str, int]) -> dict[str, int]:
    """Return sizes for free dimensions that are named like lengths and not given, because one token is not a typical load."""
    names = [dim for arg in inputs for dim in arg.shape if isinstance(dim, str) and dim not in given]
    return {name: LENGTH for name in names if _LENGTHS.search(name) and not _OTHER_LENGTHS.search(name)}


def free_sizes(inputs: Sequence[NodeArg], size: int) -> dict[str, int]:
    """Return `size` for each free dimension, but 1 for those that are the first of an input, where batches lie."""
    axes = [(axis, dim) for arg in inputs for axis, dim in enumerate(arg.shape) if isinstance(dim, str)]
    return {dim: size for _, dim in axes} | {dim: 1 for axis, dim in axes if axis == 0}


def default_sizes(arguments: Namespace, inputs: Sequence[NodeArg]) -> dict[str, int]:
    """Return the free dimensions of random inputs that are 1 because nothing gives a size. Those without a name: "x[0]"."""
    if arguments.feeds:
        return {}
    given = {*_by_input(arguments.input, "--input", inputs, False), *_by_input(arguments.shape, "--shape", inputs, False)}
    free = [
        dim or f"{arg.name}[{axis}]"
        for arg in inputs
        if arg.name not in given
        for axis, dim in enumerate(arg.shape)
        if not isinstance(dim, int)
    ]
    return {name: 1 for name in dict.fromkeys(free) if name not in dims_of(arguments)}


def shapes_of(arguments: Namespace, inputs: Sequence[NodeArg]) -> dict[str, list[int]]:
    """Return the shapes given by --shape, by input. Raises InvalidArgument for unknown inputs and dimensions."""
    _check_dims(arguments, inputs, True)
    given = _by_input(arguments.shape, "--shape", inputs, True)
    return {arg.name: _shape(arg, given[arg.name]) for arg in inputs if arg.name in given}


def random(arg: NodeArg, shape: Sequence[int], rng: np.random.Generator) -> Any:
    """Return random contents: normally distributed floats; integers 0 or 1, which are valid indices almost everywhere."""
    dtype = _dtype(arg)
    if dtype == "string":
        return np.full(shape, "text", object)
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(to_numpy(dtype))
    return rng.integers(0, 2, shape).astype(to_numpy(dtype))


def _dtype(arg: NodeArg) -> str:
    if not arg.type.startswith("tensor("):
        raise InvalidArgument(f"input {arg.name!r} is {arg.type}: only tensors can be given or made up here")
    return from_ort_name(arg.type)


# Which input


def _check_dims(arguments: Namespace, inputs: Sequence[NodeArg], known: bool) -> None:
    names = sorted({dim for arg in inputs for dim in arg.shape if isinstance(dim, str)})
    for name, _ in pairs(arguments.dim, "--dim"):
        if known and name not in names:
            there = f"it has {', '.join(names)}" if names else "none of its dimensions has a name"
            raise InvalidArgument(
                f"--dim {name}: the inputs of the model have no dimension of this name{hint(name, names)}; {there}. "
                f"--shape NAME=1x3x224x224 says a whole shape"
            )


def _by_input(texts: Sequence[str], option: str, inputs: Sequence[NodeArg], known: bool) -> dict[str, str]:
    """Split NAME=TEXT by input. A model with one input needs no NAME=."""
    found: dict[str, str] = {}
    for text in texts:
        if "=" not in text and len(inputs) == 1:
            text = f"{inputs[0].name}={text}"
        ((name, value),) = pairs([text], option)
        if name in found:
            raise InvalidArgument(f"{option} {name}: given twice")
        found[name] = value
    for name in found if known else ():
        _check_name(name, option, inputs)
    return found


def _check_name(name: str, option: str, inputs: Sequence[NodeArg]) -> None:
    names = [arg.name for arg in inputs]
    if name not in names:
        raise InvalidArgument(
            f"{option}: the model has no input {name!r}{hint(name, names)}; it has {', '.join(names) or 'none'}"
        )


def _read_files(arguments: Namespace, inputs: Sequence[NodeArg], known: bool) -> dict[str, Any]:
    """Return the contents of files, by input."""
    found: dict[str, Any] = {}
    if arguments.feeds:
        found = _several(Path(arguments.feeds), inputs)
        for name in found if known else ():
            _check_name(name, f"--feeds {arguments.feeds}", inputs)
    by_name = {arg.name: arg for arg in inputs}
    for name, file in _by_input(arguments.input, "--input", inputs, known).items():
        if name in by_name:
            found[name] = _one(Path(file), by_name[name])
    return found


# Files


def _several(path: Path, inputs: Sequence[NodeArg]) -> dict[str, Any]:
    """Return inputs from an archive, or from a folder in which input_0.pb is the first input and NAME.npy is input NAME."""
    by_name = {arg.name: arg for arg in inputs}
    if not path.is_dir():
        if path.suffix != ".npz" and path.exists():
            raise InvalidArgument(f"--feeds {path}: expected NAME.npz or a folder; one input's file is --input NAME={path}")
        arrays = _read(path, _archive)
        return {name: _text(array) if array.dtype.kind == "U" else array for name, array in arrays.items()}
    found = {}
    for index, arg in enumerate(inputs):
        if (file := path / f"input_{index}.pb").is_file():
            found[arg.name] = _one(file, arg)
    for file in sorted(path.iterdir()):
        if file.stem in by_name and file.stem not in found and file.suffix in _READERS:
            found[file.stem] = _one(file, by_name[file.stem])
    if not found:
        raise InvalidArgument(f"--feeds {path}: no file in it is input_0.pb, or an input's name and {', '.join(_READERS)}")
    return found


def _one(path: Path, arg: NodeArg) -> Any:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidArgument(f"--input {arg.name}={path}: expected a file that ends in {', '.join(_READERS)}")
    return _read(path, lambda file: reader(file, arg))


def _read(path: Path, reader: Callable[[Path], Any]) -> Any:
    """Read a file with `reader`. Raises InvalidArgument that names the file if its contents contradict its name."""
    if not path.exists():
        raise InvalidArgument(f"{path}: there is no such file")
    try:
        return reader(path)
    except InvalidArgument:
        raise
    except Exception as error:  # each library has errors of its own for what it cannot read
        told = (words(error) if isinstance(error, OSError) else str(error)).splitlines() or [type(error).__name__]
        raise InvalidArgument(f"{path}: it cannot be read as {path.suffix}: {told[0]}") from error


def _archive(path: Path) -> dict[str, Array]:
    with open_file(path).stream() as file, np.load(file) as data:
        if not isinstance(data, np.lib.npyio.NpzFile):
            raise ValueError("it is one array; --input NAME=FILE.npy gives it to an input")
        return dict(data)


def _array(path: Path, _arg: NodeArg) -> Any:
    with open_file(path).stream() as file:
        found = np.load(file)
    return _text(found) if found.dtype.kind == "U" else found


def _text(array: Array) -> Any:
    return array.astype(object)


def _proto(path: Path, arg: NodeArg) -> Any:
    """Read a TensorProto, the format of ONNX's test data."""
    from ort_lite.load.proto import pb
    from ort_lite.load.tensor_proto import TensorReader

    _dtype(arg)
    return TensorReader()(pb.TensorProto.FromString(read_file(path)), path.name)


def _lines(path: Path, arg: NodeArg) -> Any:
    """Read one string per line, as a scalar or one row if the input has that shape."""
    if _dtype(arg) != "string":
        raise InvalidArgument(f"--input {arg.name}={path}: it is text, but the input is {arg.type}")
    lines = read_file(path).decode("utf-8").splitlines()
    if not arg.shape:
        return np.array("\n".join(lines), object)
    return np.array(lines, object).reshape((-1, *([1] * (len(arg.shape) - 1))))


def _image(path: Path, arg: NodeArg) -> Any:
    """Read an image as `(N, C, H, W)` or `(N, H, W, C)`, whichever the input declares, and resize it to declared sizes.

    Integers range from 0 to 255, floats from 0 to 1.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise InvalidArgument(f"{path}: reading images needs Pillow: pip install pillow") from None
    shape = arg.shape
    if len(shape) != 4:
        raise InvalidArgument(f"--input {arg.name}={path}: an image becomes four dimensions, but the input has {shape}")
    first = shape[1] in (1, 3, 4) or shape[3] not in (1, 3, 4)
    channels, height, width = (shape[1], *shape[2:]) if first else (shape[3], *shape[1:3])
    with open_file(path).stream() as file, Image.open(file) as opened:
        picture = opened.convert({1: "L", 4: "RGBA"}.get(channels if isinstance(channels, int) else 3, "RGB"))
    size = (width if isinstance(width, int) else picture.width, height if isinstance(height, int) else picture.height)
    pixels = np.asarray(picture.resize(size)).reshape(1, size[1], size[0], -1)
    pixels = pixels.transpose(0, 3, 1, 2) if first else pixels
    dtype = _dtype(arg)
    return (pixels / np.float32(255) if dtype in FLOATS else pixels).astype(to_numpy(dtype))


_READERS: dict[str, Callable[[Path, NodeArg], Any]] = {
    ".npy": _array,
    ".pb": _proto,
    ".txt": _lines,
    **dict.fromkeys(IMAGES, _image),
}


# Values that are written out


def _shape(arg: NodeArg, text: str) -> list[int]:
    what = f"--shape {arg.name}={text}"
    shape = [_number(what, part) for part in text.lower().replace(",", "x").split("x")] if text else []
    if arg.shape and len(arg.shape) != len(shape):  # [] is an open rank, too
        raise InvalidArgument(f"{what}: {len(shape)} dimensions, but the input has {arg.shape}")
    return shape


def _fill(arg: NodeArg, text: str, shape: Sequence[int]) -> Any:
    """Return an array filled with one value, or with one value per element, separated by commas."""
    dtype = _dtype(arg)
    parts: list[Any] = text.split(",")
    if dtype != "string":
        try:
            parts = [_parse_number(part) for part in parts]
        except ValueError:
            raise InvalidArgument(f"--value {arg.name}={text}: expected numbers, since the input is {arg.type}") from None
    if len(parts) > 1 and len(shape) == 1 == len(arg.shape) and not isinstance(arg.shape[0], int):
        shape = [len(parts)]
    if len(parts) not in (1, prod(shape)):
        raise InvalidArgument(
            f"--value {arg.name}={text}: {len(parts)} values, expected 1 or {prod(shape)} for the shape {list(shape)}"
        )
    kind = object if dtype == "string" else to_numpy(dtype)
    try:
        array = np.array(parts, object).astype(kind)
    except (OverflowError, ValueError):
        raise InvalidArgument(f"--value {arg.name}={text}: does not fit {arg.type}") from None
    return np.full(shape, array[0], kind) if len(parts) == 1 else array.reshape(shape)


def _parse_number(text: str) -> int | float | bool:
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not text.isascii() or "_" in text:  # which Python's numbers may have
        raise ValueError(text)
    return float(text) if set(text.lower()) & set(".einf") else int(text, 0)


def _size_of(dim: int | str | None, dims: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims.get(dim or "", 1)


def _number(what: str, text: str) -> int:
    if not (text.isascii() and text.strip().isdecimal()):
        raise InvalidArgument(f"{what}: expected a number")
    return int(text)
