"""onnx's backend test suite: how many cases there are, and what is left of those that `test_onnx_backend_*.py` leave out."""

import numpy as np
import onnx
import pytest

from ort_lite.errors import NotImplemented as NotSupported
from tests.conformance.onnx_backend import COUNTS, EXCLUDED, cases, data_sets, feeds, model_of, names, session

pytestmark = pytest.mark.slow

BERNOULLI = sorted(name for name in EXCLUDED if "bernoulli" in name)
GRADIENT = sorted(name for name in EXCLUDED if "gradient" in name)


@pytest.mark.skipif(onnx.__version__ not in COUNTS, reason=f"cases are counted for onnx {', '.join(COUNTS)}")
def test_all_cases_but_ten_are_run() -> None:
    assert len(cases()) == COUNTS[onnx.__version__]
    assert len(EXCLUDED) == 10


def test_what_is_run_or_left_out_is_the_suite(pytestconfig: pytest.Config) -> None:
    assert names(pytestconfig) == sorted(cases()), "remembered from another onnx? pytest --cache-clear"
    assert set(cases()) >= EXCLUDED.keys()


@pytest.mark.parametrize("level", ["all", "none"])
@pytest.mark.parametrize("name", BERNOULLI)
def test_bernoulli_draws_zeros_and_ones(name: str, level: str) -> None:
    model = model_of(cases()[name])
    [(inputs, [expected])] = data_sets(cases()[name], model)
    [drawn] = session(model, level).run(None, feeds(model, inputs))
    assert (drawn.shape, drawn.dtype) == (expected.shape, expected.dtype)
    assert set(np.unique(drawn)) <= {0, 1}
    if "seed" in name:
        [again] = session(model, level).run(None, feeds(model, inputs))
        np.testing.assert_array_equal(drawn, again)


@pytest.mark.parametrize("name", GRADIENT)
def test_gradient_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupported, match=r"Gradient 'my_gradient' \(ai.onnx.preview.training 1"):
        session(model_of(cases()[name]))
