"""A scikit-learn pipeline without scikit-learn: a scaler and a random forest that tell by whom a wine is.

    python examples/sklearn_pipeline.py

`examples/train_wine.py` trained the pipeline and converted it by skl2onnx. Its operators are of the domain ai.onnx.ml; it answers
with strings, and with a dict of probabilities for each wine. Scikit-learn's own answers lie beside it, and are compared with these.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ort_lite

FOLDER = Path(__file__).parent / "data" / "wine"

Probabilities = list[dict[str, float]]


def predict(session: ort_lite.InferenceSession, wines: NDArray[np.float32]) -> tuple[list[str], Probabilities]:
    """(n, 13) measurements -> the n growers, and how likely each is."""
    growers, probabilities = session.run(["output_label", "output_probability"], {"X": wines})
    return growers.tolist(), probabilities


def main() -> None:
    session = ort_lite.InferenceSession(FOLDER / "wine.onnx", providers=["CPUExecutionProvider"])
    print(f"{session.explain()}\n")
    with np.load(FOLDER / "wines.npz") as data:
        wines, growers, predicted, expected = (data[name] for name in ("wines", "growers", "predicted", "probabilities"))
    found, likely = predict(session, wines)
    for name, probabilities in list(zip(found, likely, strict=True))[:3]:
        print(f"{name:<8}" + ", ".join(f"{grower} {value:.2f}" for grower, value in probabilities.items()))
    same, right = (sum(one == other for one, other in zip(found, told, strict=True)) for told in (predicted, growers))
    apart = np.abs([list(row.values()) for row in likely] - expected).max()
    print(f"{len(wines)} wines that the forest has not seen: {right} right, {same} as scikit-learn says")
    print(f"probabilities: at most {apart:.1e} from scikit-learn's")


if __name__ == "__main__":
    main()
