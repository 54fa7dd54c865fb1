"""What a request may ask of a playground, and what is said where it asks for something else."""

import json
from typing import Any

import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.tools.playground.playground_request import PlaygroundRequest, parse_request

MODELS, PROVIDERS = {"a.onnx", "b.onnx"}, ["FirstExecutionProvider", "CPUExecutionProvider"]


def request(**given: Any) -> PlaygroundRequest:
    return parse_request(
        json.dumps({"model": "a.onnx", "providers": ["CPUExecutionProvider"]} | given).encode(), MODELS, PROVIDERS
    )


def test_what_is_left_out_is_as_on_the_command_line() -> None:
    assert request() == PlaygroundRequest("a.onnx", ("CPUExecutionProvider",))


def test_a_wish_becomes_arguments_of_the_command_line() -> None:
    made = request(providers=PROVIDERS, level="basic", threads=2, config=["k=v"], shapes=["x=1"], seed=3).arguments()
    assert (made.providers, made.level, made.threads) == ("FirstExecutionProvider,CPUExecutionProvider", "basic", 2)
    assert (made.config, made.shape, made.seed) == (("k=v",), ("x=1",), 3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "a.onx"}, "model: 'a.onx' is none of those here; did you mean 'a.onnx'?"),
        ({"providers": ["FirstExecutionProvide"]}, "did you mean 'FirstExecutionProvider'?"),
        ({"providers": "CPUExecutionProvider"}, "providers: expected a list of at most"),
        ({"config": ["x" * 10_001]}, "config: expected a list of at most"),
        ({"shapes": ["x=1"] * 257}, "shapes: expected a list of at most"),
        ({"values": [1]}, "values: expected a list of at most"),
        ({"level": "most"}, "level: 'most' is none of those here"),
        ({"threads": 1025}, "threads: 1025, expected a number from 0 to 1024"),
        ({"threads": True}, "threads: True, expected a number"),
        ({"seed": -1}, "seed: -1, expected a number"),
        ({"timeout": 0}, "timeout: 0, expected a number from 0.001 to 3600"),
        ({"timeout": float("nan")}, "timeout: nan, expected a number"),
        ({"threads": 10**400}, "expected a number from 0 to 1024"),
        ({"thread": 1}, "'thread': no field of a request; did you mean 'threads'?"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        request(**given)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 400
