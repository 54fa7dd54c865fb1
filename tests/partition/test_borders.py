"""Borders between providers: what crosses them is looked at on both sides, and belongs to whoever it should.

Long, and one file: all groups look at the same three providers, from one side or the other.
"""

import ctypes
import re
from collections import deque
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, OutOfMemory, ProviderError, RuntimeException
from ort_lite.graph import TensorType
from ort_lite.provider import CPU, Device
from ort_lite.shapes import symbol
from tests.provider.numpy_provider import Box, BoxTransfer, NumpyProvider, OtherDevice
from tests.provider.texts import plain, proto


def make(text: str, *providers: Any, **config: str) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), plain(**config), providers=list(providers))


X = np.array([1, -2, 3], np.float32)


class Plain(NumpyProvider):
    """Takes one operator on the CPU; `function` is its partition."""

    name = "PlainExecutionProvider"

    def __init__(self, function: Any, op_type: str = "Abs") -> None:
        super().__init__(lambda node: node.op_type == op_type, operators=(op_type,))
        self.function = function

    def compile(self, partitions: Any) -> Any:
        return [self.function for _ in partitions]


class Boxed(OtherDevice):
    """Takes Abs in a memory of its own; `leave` is what its transfer makes of what it copies out, `enter` of what comes in."""

    def __init__(self, leave: Any = lambda y: y, enter: Any = lambda box: box) -> None:
        super().__init__(lambda node: node.op_type == "Abs")
        self.leave, self.enter = leave, enter

    def data_transfer(self) -> Any:
        return Leaving(self)


class Leaving(BoxTransfer):
    def __init__(self, provider: Boxed) -> None:
        super().__init__(provider.device)
        self.provider = provider

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        made = super().copy(value, source, destination)
        return self.provider.leave(made) if destination == CPU else self.provider.enter(made)


def misaligned(y: Any) -> Any:
    raw = np.zeros(y.nbytes + 1, np.uint8)[1:]
    raw[:] = y.reshape(-1).view(np.uint8)
    return raw.view(y.dtype).reshape(y.shape)


def locked(y: Any) -> Any:
    y = y.copy()
    y.setflags(write=False)
    return y


def providers(change: Any) -> list[Any]:
    return [Plain(lambda inputs: [change(np.abs(inputs[0]))]), Boxed(change)]


SIDES = pytest.mark.parametrize("side", [0, 1], ids=["partition", "transfer"])
"""What a partition on the CPU returns, and what a transfer to the CPU does."""
MATRIX = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


# What leaves a provider


class TestWhatIsRefused:
    @SIDES
    @pytest.mark.parametrize(
        ("change", "came"),
        [
            (lambda y: y.astype(np.int8), r"int8\[2, 3\] for 'a'; expected float32\[N, 3\]"),
            (lambda y: y.reshape(-1), r"float32\[6\] for 'a'; expected float32\[N, 3\], of rank 2"),
            (lambda y: y[:, :1], r"float32\[2, 1\] for 'a'; expected float32\[N, 3\]: dimension 1 is 1$"),
            (lambda y: y[:1], r"float32\[1, 3\] for 'a'; expected float32\[N, 3\]: dimension 0 is 1, and N is 2$"),
            (lambda y: y.tolist(), "list for 'a'"),
            (lambda y: None, "None for 'a'"),
        ],
    )
    def test_another_type_rank_size_or_kind(self, side: int, change: Any, came: str) -> None:
        session = make("(float[N, 3] x) => (float[N, 3] y) { a = Abs(x)  y = Softmax(a) }", providers(change)[side])
        with pytest.raises(ProviderError) as caught:
            session.run(None, {"x": MATRIX})
        name = ("PlainExecutionProvider", "BoxExecutionProvider")[side]
        by = rf"{name}_0 \({name}\)" + side * ", copied box:0 -> cpu:0 by Leaving,"
        assert re.search(rf"^{by} returned {came}", str(caught.value)), str(caught.value)

    @SIDES
    def test_none_never_reaches_the_caller(self, side: int) -> None:
        session = make("(float[N] x) => (float[N] y) { y = Abs(x) }", providers(lambda y: None)[side])
        with pytest.raises(ProviderError, match=r"returned None for 'y'; expected float32\[N\]"):
            session.run(None, {"x": X})

    @pytest.mark.parametrize(
        ("elements", "came"),
        [
            (lambda x: [x, x.astype(np.float64)], "float64[3] for element 1 of 's'; expected float32[N]"),
            (lambda x: [x, None], "None for element 1 of 's'"),
            (lambda x: [x, x.tolist()], "list for element 1 of 's'"),
            (lambda x: [x[None]], "float32[1, 3] for element 0 of 's'; expected float32[N], of rank 1"),
            (lambda x: x, "float32[3] for 's'; expected seq(float32[N])"),
            (lambda x: "no", "str for 's'"),
        ],
    )
    def test_elements_of_sequences(self, elements: Any, came: str) -> None:
        text = (
            "(float[N] x) => (float[M] y) { s = SequenceConstruct(x, x)  i = Constant<value_int = 0>()  y = SequenceAt(s, i) }"
        )
        session = make(text, Plain(lambda inputs: [elements(inputs[0])], "SequenceConstruct"))
        with pytest.raises(
            ProviderError, match=re.escape(f"PlainExecutionProvider_0 (PlainExecutionProvider) returned {came}")
        ):
            session.run(None, {"x": X})

    @pytest.mark.parametrize(("made", "right"), [(X[:1], False), (X.astype(np.int8), False), (X, True), (None, True)])
    def test_what_optionals_hold(self, made: Any, right: bool) -> None:
        text = "(float[N] x) => (bool y) { o = Optional(x)  y = OptionalHasElement(o) }"
        session = make(text, Plain(lambda inputs: [made], "Optional"))
        if right:
            assert session.run(None, {"x": X})[0] == (made is not None)
            return
        with pytest.raises(ProviderError, match=r"for 'o'; expected float32\[N\]"):
            session.run(None, {"x": X})

    def test_strings(self) -> None:
        text = "(string[N] x) => (string[N] y) { a = StringNormalizer(x)  y = Identity(a) }"
        feed = {"x": np.array(["b", "a"], object)}
        for made, right in ((np.array(["c", "d"]), True), (np.array(["c", 1], object), False), (np.array([b"c", b"d"]), False)):
            session = make(text, Plain(lambda inputs, made=made: [made], "StringNormalizer"))
            if right:
                assert session.run(None, feed)[0].tolist() == ["c", "d"]
            else:
                with pytest.raises(ProviderError, match="for 'a'; expected string"):
                    session.run(None, feed)

    @pytest.mark.parametrize("call", ["body.captures[0]", "its input"])
    def test_what_a_body_is_called_with(self, call: str) -> None:
        class Control(NumpyProvider):
            def compile(self, partitions: Any) -> Any:
                (partition,) = partitions
                (body,) = partition.bodies.values()
                order = partition.inputs

                def wide(inputs: list[Any]) -> list[Any]:
                    return [np.float64(x) if x.dtype == np.float32 else x for x in inputs]

                def run(inputs: Any) -> Any:
                    values = dict(zip(order, inputs, strict=True))
                    captured = [values[value] for value in body.captures]
                    state = [values[value] for value in partition.nodes[0].inputs[2:]]
                    given = [np.array(0), np.array(True), *(wide(state) if call == "its input" else state)]
                    return body(given, captured if call == "its input" else wide(captured))[1:]

                return [run]

        text = """(float[N] x, float[N] w, int64 n, bool c) => (float[N] y) {
            y = Loop (n, c, x) <body = b (int64 i, bool go, float[N] s) => (bool on, float[N] t) { on = Identity(go)  t = Add(s, w) }>
        }"""
        session = make(text, Control(lambda node: node.op_type == "Loop", name="L"))
        feed = {"x": X, "w": X, "n": np.array(1), "c": np.array(True)}
        with pytest.raises(
            ProviderError, match=r"NumpyExecutionProvider_0 \(Nump.*\) called its body 'b' with float64\[3\] for '[ws]'"
        ):
            session.run(None, feed)


class TestSizesByTheFeed:
    @SIDES
    @pytest.mark.parametrize("size", [1, 3, 7])
    def test_of_an_expression(self, side: int, size: int) -> None:
        text = "(float[N] x) => (float[M] y) { c = Concat<axis = 0>(x, x)  a = Abs(c)  y = Neg(a) }"
        session = make(text, providers(lambda y: np.resize(y, size))[side])
        with pytest.raises(ProviderError, match=rf"'a'; expected float32\[2\*N\]: dimension 0 is {size}, and 2\*N is 6"):
            session.run(None, {"x": X})

    def test_that_the_partition_does_not_see(self) -> None:
        """Its only input is a shape, whose elements say the size."""
        text = "(float[N] x) => (float[N] y) { s = Shape(x)  n = Abs(s)  a = ConstantOfShape(n)  y = Add(a, x) }"

        def filled(size: int) -> Any:
            return lambda inputs: [np.zeros(size, np.float32)]

        class Typed(Plain):
            def compile(self, partitions: Any) -> Any:
                partitions[0].outputs[0].type = TensorType("float32", (symbol("N"),))  # as a better shape rule would say
                return super().compile(partitions)

        np.testing.assert_array_equal(make(text, Typed(filled(3), "ConstantOfShape")).run(None, {"x": X})[0], X)
        with pytest.raises(ProviderError, match=r"PlainExecutionProvider_0 .* dimension 0 is 1, and N is 3"):
            make(text, Typed(filled(1), "ConstantOfShape")).run(None, {"x": X})
        provider = Typed(filled(1), "ConstantOfShape")
        session = make(text, (provider, {"on_run_error": "next"}))
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X)

    def test_a_run_has_its_own(self) -> None:
        session = make("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }", Plain(lambda inputs: [np.abs(inputs[0])]))
        for size in (3, 0, 5, 3):
            assert session.run(None, {"x": np.ones(size, np.float32)})[0].shape == (size,)

    def test_inputs_that_disagree_bind_nothing(self) -> None:
        """As the CPU provider, and onnxruntime, have it."""
        text = "(float[N] x, float[N] w) => (float[N] y) { y = Add(x, w) }"
        session = make(text, Plain(lambda inputs: [inputs[0] + inputs[1]], "Add"))
        assert session.run(None, {"x": X, "w": X[:1]})[0].shape == (3,)

    def test_open_ones_are_those_of_the_first_output(self) -> None:
        text = "(float[N] x) => (float[K] y, int64[K] z) { y, z, i, n = Unique(x) }"
        session = make(text, Plain(lambda inputs: [X[:2], np.ones(3, np.int64)], "Unique"))
        with pytest.raises(ProviderError, match=r"for 'z'; .*dimension 0 is 3, and .* is 2"):
            session.run(None, {"x": X})


class TestWhatIsMadePlain:
    @SIDES
    @pytest.mark.parametrize(
        "form",
        [
            misaligned,
            locked,
            np.asfortranarray,
            np.ma.masked_array,
            lambda y: y.view(np.matrix),
            lambda y: y.astype(">f4"),
            lambda y: y[::-1][::-1],
            lambda y: np.broadcast_to(y, y.shape),
        ],
    )
    @pytest.mark.parametrize("last", ["y = Neg(a)", "y = Identity(a)", ""])
    def test_arrays_of_other_forms(self, side: int, form: Any, last: str) -> None:
        text = f"(float[N, 3] x) => (float[N, 3] {'y' if last else 'a'}) {{ a = Abs(x)  {last} }}"
        (y,) = make(text, providers(form)[side]).run(None, {"x": MATRIX})
        np.testing.assert_array_equal(y, -np.abs(MATRIX) if "Neg" in last else np.abs(MATRIX))
        assert type(y) is np.ndarray and y.flags.carray and y.dtype == np.float32 and y.dtype.isnative

    def test_a_mapped_file(self, tmp_path: Any) -> None:
        mapped = np.memmap(tmp_path / "y", np.float32, "w+", shape=3)
        (y,) = make("(float[N] x) => (float[N] y) { y = Abs(x) }", Plain(lambda inputs: [mapped])).run(None, {"x": X})
        y[:] = 7
        assert type(y) is np.ndarray and not mapped.any()

    @pytest.mark.parametrize("declared", ["float", "float[]"], ids=["rank 0", "any rank"])
    def test_scalars(self, declared: str) -> None:
        (y,) = make(f"({declared} x) => ({declared} y) {{ y = Abs(x) }}", Plain(lambda inputs: [np.float32(3)])).run(
            None, {"x": np.float32(1)}
        )
        assert type(y) is np.ndarray and y.shape == () and y.flags.writeable


# What a provider is given


def overwrite(inputs: Any) -> Any:
    inputs[0][...] = 77
    return [np.abs(inputs[0])]


class TestInputsAreReadOnly:
    @pytest.mark.parametrize("text", ["{ y = Abs(x) }", "{ n = Neg(x)  y = Abs(n) }", "{ y = Abs(w) }"])
    def test_a_write_is_the_provider_s_error(self, text: str) -> None:
        x = X.copy()
        session = make(f"(float[3] x, float[3] w) => (float[3] y) {text}", Plain(overwrite))
        with pytest.raises(
            RuntimeException, match=r"^PlainExecutionProvider_0 \(PlainExecutionProvider\) failed: ValueError: .*read-only"
        ):
            session.run(None, {"x": x, "w": x})
        np.testing.assert_array_equal(x, X)

    def test_elements_and_lists(self) -> None:
        def first(inputs: Any) -> Any:
            inputs[0].append(0)
            inputs[0][0][0] = 77

        text = "(seq(float[N]) s) => (float[N] y) { i = Constant<value_int = 0>()  y = SequenceAt(s, i) }"
        fed = [X.copy()]
        with pytest.raises(RuntimeException, match="read-only"):
            make(text, Plain(first, "SequenceAt")).run(None, {"s": fed})
        assert len(fed) == 1
        np.testing.assert_array_equal(fed[0], X)

    def test_constants(self) -> None:
        text = "(float[N] x) => (float[N] y) <float[1] w = {2}> { y = Add(x, w) }"
        seen: list[Any] = []

        class Asking(NumpyProvider):
            def get_capability(self, graph: Any) -> Any:
                seen.extend(v.constant for node in graph for v in node.inputs if v is not None and v.constant is not None)
                return super().get_capability(graph)

        model = ort_lite.load(proto(text))
        own = np.array([2], np.float32)
        model.graph.initializers["w"].constant = own
        ort_lite.InferenceSession(model, providers=[Asking()])
        assert seen and not any(array.flags.writeable for array in seen)
        assert own.flags.writeable, "the caller's stays as it is"

    def test_a_transfer_sees_them_too(self) -> None:
        class Writing(BoxTransfer):
            def copy(self, value: Any, source: Device, destination: Device) -> Any:
                if source == CPU:
                    value[...] = 77
                return super().copy(value, source, destination)

        provider: Any = Boxed()
        provider.data_transfer = lambda: Writing(provider.device)
        x = X.copy()
        with pytest.raises(RuntimeException, match="read-only"):
            make("(float[N] x) => (float[N] y) { y = Abs(x) }", provider).run(None, {"x": x})
        np.testing.assert_array_equal(x, X)

    def test_the_next_provider_computes_from_what_was_there(self) -> None:
        text = "(float[N] x) => (float[N] y) { n = Neg(x)  y = Abs(n) }"
        x = X.copy()
        (y,) = make(text, (Plain(overwrite), {"on_run_error": "next"})).run(None, {"x": x})
        np.testing.assert_array_equal(y, np.abs(X))
        np.testing.assert_array_equal(x, X)

    def test_a_provider_that_takes_care_gets_the_array_itself(self) -> None:
        class Careful(Plain):
            writes_no_input = True

        seen: list[Any] = []

        def run(inputs: Any) -> Any:
            seen.extend(inputs)
            return [inputs[0]]

        (y,) = make("(float[N] x) => (float[N] y) { y = Abs(x) }", Careful(run)).run(None, {"x": X})
        assert seen[0] is X and not np.shares_memory(y, X)


class TestOutputsAreTheCallers:
    @pytest.mark.parametrize(
        "result",
        [
            lambda x: x,
            lambda x: x[:],
            lambda x: x.reshape(x.shape),
            lambda x: np.asarray(memoryview(x)),
            lambda x: np.ctypeslib.as_array((ctypes.c_float * 3).from_address(x.ctypes.data)),
        ],
    )
    def test_an_input_that_is_returned(self, result: Any) -> None:
        x = X.copy()
        session = make("(float[N] x) => (float[N] y) { y = Abs(x) }", Plain(lambda inputs: [result(inputs[0])]))
        (y,) = session.run(None, {"x": x})
        assert y.flags.writeable and not np.shares_memory(x, y)
        np.testing.assert_array_equal(y, X)

    def test_through_a_device_that_copies_nothing(self) -> None:
        class Handing(BoxTransfer):
            def copy(self, value: Any, source: Device, destination: Device) -> Any:
                return Box(destination, value) if source == CPU else value.open(source)

        provider: Any = Boxed()
        provider.data_transfer = lambda: Handing(provider.device)
        provider._boxed = lambda partition, inputs: list(inputs)
        x = X.copy()
        (y,) = make("(float[N] x) => (float[N] y) { y = Abs(x) }", provider).run(None, {"x": x})
        assert y.flags.writeable and not np.shares_memory(x, y)

    @pytest.mark.parametrize("view", [lambda y: y, lambda y: y[:]])
    def test_one_array_for_two_outputs(self, view: Any) -> None:
        def run(inputs: Any) -> Any:
            made = np.abs(inputs[0])
            return [made, view(made)]

        text = "(float[N] x) => (float[N] y, float[N] z) { y = Abs(x)  z = Abs(x) }"
        y, z = make(text, Plain(run)).run(None, {"x": X})
        assert not np.shares_memory(y, z)
        np.testing.assert_array_equal(y, z)

    def test_elements_of_an_optional_sequence(self) -> None:
        text = "(float[N] x) => (optional(seq(float[N])) y) { s = SequenceConstruct(x)  y = Optional(s) }"
        x = X.copy()
        ((y,),) = make(text, Plain(lambda inputs: [inputs[0]], "Optional")).run(None, {"x": x})
        assert y.flags.writeable and not np.shares_memory(x, y)


# What is no answer at all


class Holder:
    """An allocator and a transfer that copies into it."""

    def __init__(self, into: Any) -> None:
        self.into, self.freed = into, 0

    def allocate(self, nbytes: int) -> Any:
        return bytearray(nbytes)

    def free(self, handle: Any) -> None:
        self.freed += 1


class TestNonsense:
    @pytest.mark.parametrize("where", ["{ y = Abs(x) }", "{ a = Abs(x)  y = Neg(a) }"], ids=["direct", "steps"])
    @pytest.mark.parametrize("device", [False, True])
    @pytest.mark.parametrize(
        ("returned", "said"),
        [
            (None, "returned None; expected a list of 1 values, one an output"),
            (7, "returned a int; expected a list"),
            ({"y": X}, "returned a dict; expected a list"),
            ((x for x in [X]), "returned a generator; expected a list"),
            ("y", "returned a str; expected a list"),
            (X[:1], "returned a ndarray; expected a list"),
            ([], "returned 0 values for 1 outputs"),
            ([X, X], "returned 2 values for 1 outputs"),
            (deque([X, X]), "returned 2 values for 1 outputs"),
        ],
    )
    @pytest.mark.parametrize("verify", [None, "partition"])
    def test_a_partition_returns_it(self, where: str, device: bool, returned: Any, said: str, verify: Any) -> None:
        class There(Boxed):
            def compile(self, partitions: Any) -> Any:
                return [lambda inputs: returned for _ in partitions]

        provider = There() if device else Plain(lambda inputs: returned)
        session = make(f"(float[N] x) => (float[N] y) {where}", provider)
        with pytest.raises(ProviderError, match=rf"^{provider.name}_0 \({provider.name}\) {said}"):
            session.run(None, {"x": X}, verify=verify)

    def test_where_the_next_provider_may_run_it_does(self) -> None:
        session = make("(float[N] x) => (float[N] y) { y = Abs(x) }", (Plain(lambda inputs: None), {"on_run_error": "next"}))
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X))
        assert any("returned None; expected a list of 1 values" in note for note in session.explain().notes)

    @pytest.mark.parametrize("where", ["{ y = Abs(x) }", "{ a = Abs(x)  y = Neg(a) }"], ids=["direct", "steps"])
    def test_errors_of_ours_say_where_they_were_raised(self, where: str) -> None:
        def run(inputs: Any) -> Any:
            raise InvalidArgument("no such thing")

        with pytest.raises(InvalidArgument) as caught:
            make(f"(float[N] x) => (float[N] y) {where}", Plain(run)).run(None, {"x": X})
        assert str(caught.value) == "no such thing"
        assert caught.value.__notes__ == ["in PlainExecutionProvider_0 (PlainExecutionProvider)"]

    def test_those_of_copies_too(self) -> None:
        def leave(y: Any) -> Any:
            raise OutOfMemory("full")

        with pytest.raises(OutOfMemory) as caught:
            make("(float[N] x) => (float[N] y) { y = Abs(x) }", Boxed(leave)).run(None, {"x": X})
        assert caught.value.__notes__ == ["in copy 'y' box:0 -> cpu:0 (output)"]

    def test_a_transfer_that_brings_nothing_in(self) -> None:
        session = make("(float[N] x) => (float[N] y) { y = Abs(x) }", Boxed(enter=lambda box: None))
        said = r"^BoxExecutionProvider: copy of 'x', cpu:0 -> box:0 by Leaving, returned None; expected a value in the memory of box:0"
        with pytest.raises(ProviderError, match=said):
            session.run(None, {"x": X})

    @pytest.mark.parametrize("memory", [object(), 7, "memory"])
    def test_an_allocator_that_is_none(self, memory: Any) -> None:
        provider: Any = Boxed()
        Into = type("Into", (Leaving,), {"copy_into": lambda self, value, source, to, handle: Box(to, value)})
        provider.data_transfer = lambda: Into(provider)
        provider.allocator = lambda: memory
        with pytest.raises(
            ProviderError, match=r"^BoxExecutionProvider: allocator returned .*; expected an object with `allocate` and `free`"
        ):
            make("(float[N] x) => (float[N] y) { y = Abs(x) }", provider)

    @pytest.mark.parametrize(
        ("made", "said"),
        [(lambda h: None, "None"), (lambda h: 7, "a int, to which no weak reference"), (lambda h: h, "the handle")],
    )
    def test_what_copy_into_returns(self, made: Any, said: str) -> None:
        provider: Any = Boxed()
        holder = Holder(made)
        Into = type("Into", (Leaving,), {"copy_into": lambda self, value, source, to, handle: made(handle)})
        provider.data_transfer = lambda: Into(provider)
        provider.allocator = lambda: holder
        with pytest.raises(
            ProviderError, match=rf"copy_into returned {said}.*; expected a value of its own in the memory of box:0"
        ):
            make("(float[N] x) => (float[N] y) { y = Abs(x) }", provider).run(None, {"x": X})
        assert holder.freed == 1


# The CPU provider's own borders: sizes that come with a sequence or an optional, shapes that are read later


class TestSizesOfWhatCrosses:
    @pytest.mark.parametrize(
        ("made", "taken"),
        [
            ("SequenceConstruct(c, c)", "SequenceAt(s, i)"),
            ("Optional(c)", "OptionalGetElement(s)"),
            ("Identity(o)", "SequenceAt(t, i)"),
        ],
    )
    @pytest.mark.parametrize("flag", [True, False])
    def test_a_body_that_captures_elements_of_a_computed_size(self, made: str, taken: str, flag: bool) -> None:
        inner = "t = OptionalGetElement(s)" if "t, i" in taken else ""
        session = make(
            f"""(float[N] x, bool f) => (float[K] y) {{
            c = Concat<axis = 0>(x, x)  l = SequenceConstruct(c, c)  o = Optional(l)  s = {made}
            y = If (f) <
                then_branch = p () => (float[A] q) {{ i = Constant<value_int = 1>()  {inner}  w = {taken}  q = Add(w, w) }},
                else_branch = e () => (float[B] r) {{ r = Neg(x) }}
            >
        }}"""
        )
        expected = np.concatenate([X, X]) * 2 if flag else -X
        np.testing.assert_array_equal(session.run(None, {"x": X, "f": np.array(flag)})[0], expected)

    @pytest.mark.parametrize("fusion", ["0", "1"])
    @pytest.mark.parametrize("use", ["y = Reshape(v, p)", "a = Reshape(v, p)  y = Neg(a)", "a = Reshape(v, p)  y = Abs(v)"])
    def test_a_shape_that_is_read_after_the_array_was_made(self, fusion: str, use: str) -> None:
        text = f"(float[N] x, int64[1] s) => (float[M] y) {{ n = Abs(s)  p = ReduceProd(n)  v = Neg(x)  {use} }}"
        session = make(text, fusion=fusion)
        expected = -X if use.startswith("y") else X if "Neg(a)" in use else np.abs(X)
        np.testing.assert_array_equal(session.run(None, {"x": X, "s": np.array([3])})[0], expected)
