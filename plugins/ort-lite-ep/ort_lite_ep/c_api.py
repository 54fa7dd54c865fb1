"""onnxruntime's C API, as far as an execution provider needs it: functions by their positions in OrtApi.

onnxruntime only appends to its tables, so a position holds for every later release. Spec: onnxruntime_c_api.h, version 24.
"""

from collections.abc import Mapping, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
    cast,
    string_at,
)
from typing import Any

from ort_lite.errors import ProviderError

VERSION = 24
"""The version of the C API that is asked for: that of onnxruntime 1.24."""

FAIL = 1
"""The error code of OrtStatus that becomes `Fail` in onnxruntime's Python interface."""

_FUNCTIONS: list[tuple[str, int, list[Any]]] = [
    # Name, position, types of the arguments. Each returns an OrtStatus, which is NULL for success.
    ("GetTensorMutableData", 51, [c_void_p, c_void_p]),
    ("FillStringTensor", 52, [c_void_p, c_void_p, c_size_t]),
    ("GetStringTensorDataLength", 53, [c_void_p, c_void_p]),
    ("GetStringTensorContent", 54, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t]),
    ("CastTypeInfoToTensorInfo", 55, [c_void_p, c_void_p]),
    ("GetOnnxTypeFromTypeInfo", 56, [c_void_p, c_void_p]),
    ("GetTensorElementType", 60, [c_void_p, c_void_p]),
    ("GetDimensionsCount", 61, [c_void_p, c_void_p]),
    ("GetDimensions", 62, [c_void_p, c_void_p, c_size_t]),
    ("GetSymbolicDimensions", 63, [c_void_p, c_void_p, c_size_t]),
    ("RunOptionsGetRunTag", 45, [c_void_p, c_void_p]),
    ("CastTypeInfoToMapTypeInfo", 103, [c_void_p, c_void_p]),
    ("CastTypeInfoToSequenceTypeInfo", 104, [c_void_p, c_void_p]),
    ("GetMapKeyType", 105, [c_void_p, c_void_p]),
    ("GetMapValueType", 106, [c_void_p, c_void_p]),
    ("GetSequenceElementType", 107, [c_void_p, c_void_p]),
    ("CastTypeInfoToOptionalTypeInfo", 250, [c_void_p, c_void_p]),
    ("GetOptionalContainedTypeInfo", 251, [c_void_p, c_void_p]),
    ("CreateOpAttr", 211, [c_char_p, c_void_p, c_int, c_int, c_void_p]),
    ("ReadOpAttr", 272, [c_void_p, c_int, c_void_p, c_size_t, c_void_p]),
    ("GetValueInfoName", 289, [c_void_p, c_void_p]),
    ("GetValueInfoTypeInfo", 290, [c_void_p, c_void_p]),
    ("CreateMemoryInfo_V2", 320, [c_char_p, c_int, c_uint32, c_int32, c_int, c_size_t, c_int, c_void_p]),
    ("ValueInfo_GetInitializerValue", 326, [c_void_p, c_void_p]),
    ("ValueInfo_IsConstantInitializer", 331, [c_void_p, c_void_p]),
    ("Graph_GetName", 333, [c_void_p, c_void_p]),
    ("Graph_GetModelPath", 334, [c_void_p, c_void_p]),
    ("Graph_GetNumOperatorSets", 336, [c_void_p, c_void_p]),
    ("Graph_GetOperatorSets", 337, [c_void_p, c_void_p, c_void_p, c_size_t]),
    ("Graph_GetNumInputs", 338, [c_void_p, c_void_p]),
    ("Graph_GetInputs", 339, [c_void_p, c_void_p, c_size_t]),
    ("Graph_GetNumOutputs", 340, [c_void_p, c_void_p]),
    ("Graph_GetOutputs", 341, [c_void_p, c_void_p, c_size_t]),
    ("Graph_GetNumInitializers", 342, [c_void_p, c_void_p]),
    ("Graph_GetInitializers", 343, [c_void_p, c_void_p, c_size_t]),
    ("Graph_GetNumNodes", 344, [c_void_p, c_void_p]),
    ("Graph_GetNodes", 345, [c_void_p, c_void_p, c_size_t]),
    ("Graph_GetParentNode", 346, [c_void_p, c_void_p]),
    ("Node_GetName", 349, [c_void_p, c_void_p]),
    ("Node_GetOperatorType", 350, [c_void_p, c_void_p]),
    ("Node_GetDomain", 351, [c_void_p, c_void_p]),
    ("Node_GetSinceVersion", 352, [c_void_p, c_void_p]),
    ("Node_GetNumInputs", 353, [c_void_p, c_void_p]),
    ("Node_GetInputs", 354, [c_void_p, c_void_p, c_size_t]),
    ("Node_GetNumOutputs", 355, [c_void_p, c_void_p]),
    ("Node_GetOutputs", 356, [c_void_p, c_void_p, c_size_t]),
    ("Node_GetNumImplicitInputs", 357, [c_void_p, c_void_p]),
    ("Node_GetImplicitInputs", 358, [c_void_p, c_void_p, c_size_t]),
    ("Node_GetNumAttributes", 359, [c_void_p, c_void_p]),
    ("Node_GetAttributes", 360, [c_void_p, c_void_p, c_size_t]),
    ("OpAttr_GetTensorAttributeAsOrtValue", 362, [c_void_p, c_void_p]),
    ("OpAttr_GetType", 363, [c_void_p, c_void_p]),
    ("OpAttr_GetName", 364, [c_void_p, c_void_p]),
    ("Node_GetNumSubgraphs", 365, [c_void_p, c_void_p]),
    ("Node_GetSubgraphs", 366, [c_void_p, c_void_p, c_size_t, c_void_p]),
    ("Node_GetEpName", 368, [c_void_p, c_void_p]),
    ("GetSessionOptionsConfigEntries", 379, [c_void_p, c_void_p]),
    ("GetTensorElementTypeAndShapeDataReference", 414, [c_void_p, c_void_p, c_void_p, c_void_p]),
]
_OTHERS: list[tuple[str, int, Any, list[Any]]] = [
    # Name, position, type of the result, types of the arguments.
    ("CreateStatus", 0, c_void_p, [c_int, c_char_p]),
    ("GetErrorMessage", 2, c_char_p, [c_void_p]),
    ("ReleaseStatus", 93, None, [c_void_p]),
    ("ReleaseValue", 96, None, [c_void_p]),
    ("ReleaseTypeInfo", 98, None, [c_void_p]),
    ("CreateKeyValuePairs", 295, None, [c_void_p]),
    ("AddKeyValuePair", 296, None, [c_void_p, c_char_p, c_char_p]),
    ("GetKeyValuePairs", 298, None, [c_void_p, c_void_p, c_void_p, c_void_p]),
    ("ReleaseKeyValuePairs", 300, None, [c_void_p]),
    ("ReleaseOpAttr", 212, None, [c_void_p]),
    ("GetModelEditorApi", 291, c_void_p, []),
    ("HardwareDevice_Type", 307, c_int, [c_void_p]),
    ("GetEpApi", 317, c_void_p, []),
    ("TensorTypeAndShape_HasShape", 390, c_bool, [c_void_p]),
    ("GetRunConfigEntry", 373, c_char_p, [c_void_p, c_char_p]),
]
_EP_FUNCTIONS: list[tuple[str, int, list[Any]]] = [
    ("CreateEpDevice", 0, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    ("EpGraphSupportInfo_AddNodesToFuse", 2, [c_void_p, c_void_p, c_size_t, c_void_p]),
    ("EpDevice_AddAllocatorInfo", 5, [c_void_p, c_void_p]),
]
_PROFILE_FUNCTIONS: list[tuple[str, int, list[Any]]] = [
    # Of onnxruntime 1.25 and later, which alone calls for profiles.
    ("CreateProfilingEvent", 65, [*[c_int32] * 3, c_char_p, c_int64, c_int64, c_void_p, c_void_p, c_size_t, c_void_p]),
    ("ProfilingEventsContainer_AddEvents", 72, [c_void_p, c_void_p, c_size_t]),
]
_RELEASE_EVENT = 66
_EDITOR_FUNCTIONS: list[tuple[str, int, list[Any]]] = [
    ("CreateNode", 6, [c_char_p, c_char_p, c_char_p, *[c_void_p, c_size_t] * 3, c_void_p]),
]


class CApi:
    """The functions of one onnxruntime in this process. `base` is the address of its OrtApiBase.

    `passes_captures` is True if a fused node gets the values that bodies of its nodes read from outside: since 1.27.
    """

    def __init__(self, base: int) -> None:
        get_table, get_version = cast(base, POINTER(c_void_p))[:2]
        major, minor, *_ = CFUNCTYPE(c_char_p)(get_version or 0)().split(b".")
        self.passes_captures = (int(major), int(minor)) >= (1, 27)
        get = CFUNCTYPE(c_void_p, c_uint32)(get_table or 0)
        table = cast(get(VERSION), POINTER(c_void_p))
        self._functions = {name: CFUNCTYPE(c_void_p, *types)(table[at] or 0) for name, at, types in _FUNCTIONS}
        self._others = {name: CFUNCTYPE(result, *types)(table[at] or 0) for name, at, result, types in _OTHERS}
        for other, functions in (("GetEpApi", _EP_FUNCTIONS), ("GetModelEditorApi", _EDITOR_FUNCTIONS)):
            own = cast(self._others[other](), POINTER(c_void_p))
            self._functions |= {name: CFUNCTYPE(c_void_p, *types)(own[at] or 0) for name, at, types in functions}

    def read_profile_functions(self) -> None:
        """Find the functions that onnxruntime 1.24 does not have. Called once onnxruntime has asked for a profile."""
        own = cast(self._others["GetEpApi"](), POINTER(c_void_p))
        self._functions |= {name: CFUNCTYPE(c_void_p, *types)(own[at] or 0) for name, at, types in _PROFILE_FUNCTIONS}
        self._others["ReleaseProfilingEvent"] = CFUNCTYPE(None, c_void_p)(own[_RELEASE_EVENT] or 0)

    def function(self, name: str) -> Any:
        """Return a function that returns a status, for callers that expect an error."""
        return self._functions[name]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status. Raises ProviderError with onnxruntime's message."""
        self.check(self._functions[name](*arguments))

    def check(self, status: int | None) -> None:
        """Raise ProviderError for a status, which is released."""
        if status:
            message = self._others["GetErrorMessage"](status).decode(errors="replace")
            self._others["ReleaseStatus"](status)
            raise ProviderError(f"onnxruntime: {message}")

    def read(self, name: str, *arguments: Any, kind: Any = c_void_p) -> Any:
        """Return what a function writes to its last argument, a pointer to `kind`."""
        found = kind()
        self.call(name, *arguments, byref(found))
        return found.value

    def text(self, name: str, *arguments: Any) -> str:
        """Return the text to which a function's last argument points."""
        return string_at(self.read(name, *arguments)).decode()

    def pointers(self, noun: str, owner: int) -> list[int | None]:
        """Return what a pair of functions lists: `Graph_GetNumNodes` and `Graph_GetNodes` for "Graph_Nodes"."""
        kind, _, plural = noun.partition("_")
        count = self.read(f"{kind}_GetNum{plural}", owner, kind=c_size_t)
        found = (c_void_p * count)()
        if count:
            self.call(f"{kind}_Get{plural}", owner, found, count)
        return list(found)

    def other(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns no status."""
        return self._others[name](*arguments)

    def status(self, message: str) -> int:
        """Create a status of onnxruntime, an error with this message, for onnxruntime to release."""
        made: int = self._others["CreateStatus"](FAIL, message.replace("\0", " ").encode(errors="replace"))
        return made

    def pairs(self, address: int | None) -> dict[str, str]:
        """Return the entries of an OrtKeyValuePairs."""
        if not address:
            return {}
        keys, values, count = c_void_p(), c_void_p(), c_size_t()
        self.other("GetKeyValuePairs", address, byref(keys), byref(values), byref(count))
        lists = [cast(list_, POINTER(c_char_p))[: count.value] if count.value else [] for list_ in (keys, values)]
        return {(key or b"").decode(): (value or b"").decode() for key, value in zip(*lists, strict=True)}

    def new_pairs(self, entries: Mapping[str, Any]) -> Any:
        """Create an OrtKeyValuePairs, for the caller to release."""
        made = c_void_p()
        self.other("CreateKeyValuePairs", byref(made))
        for key, value in entries.items():
            self.other("AddKeyValuePair", made, key.encode(), str(value).encode())
        return made

    def add_nodes(self, support: int, nodes: Sequence[int], options: Any) -> None:
        """Tell onnxruntime that these nodes become one."""
        array = (c_void_p * len(nodes))(*nodes)
        self.call("EpGraphSupportInfo_AddNodesToFuse", support, array, len(nodes), byref(options))
