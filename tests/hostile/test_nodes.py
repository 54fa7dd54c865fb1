"""Nodes that make no sense are refused when a model is loaded: the message names the node and what is wrong."""

import pytest

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Model
from ort_lite.inference.annotate import annotate
from ort_lite.inference.form import check_form
from ort_lite.load.load import load
from ort_lite.plugins import plugins
from tests.hostile.building import node_case
from tests.hostile.nodes import LOAD


@pytest.mark.parametrize("line", LOAD.strip().splitlines())
def test_a_node_that_makes_no_sense_is_refused(line: str) -> None:
    proto, words = node_case(line)
    with pytest.raises(InvalidGraph) as caught:
        _check(load(proto))
    message = str(caught.value)
    assert "'n'" in message
    assert [word for word in words if word not in message] == [], message
    assert not message.endswith("Error)"), message


def _check(model: Model) -> None:
    rules = plugins.shape_rules()
    check_form(model, rules)
    annotate(model.graph, rules)
