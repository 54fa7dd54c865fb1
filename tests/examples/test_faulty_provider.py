"""`examples/faulty_provider.py`: the node with the mistake is named, and nothing is where there is none."""

from examples import faulty_provider
from examples.faulty_provider import FaultyExecutionProvider, RepairedExecutionProvider


def test_the_first_wrong_node_is_the_one_with_the_mistake() -> None:
    (found,) = faulty_provider.verified(FaultyExecutionProvider).wrong
    assert found.nodes == 5
    assert found.culprit is not None
    assert (found.culprit.operator, found.culprit.tensor.name) == ("LayerNormalization", "normal")


def test_nothing_is_wrong_with_the_repaired_one() -> None:
    report = faulty_provider.verified(RepairedExecutionProvider)
    assert report.ok
    assert not report.omissions
