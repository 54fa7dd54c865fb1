"""Train the scikit-learn pipeline that `examples/sklearn_pipeline.py` runs, and write `examples/data/wine/`.

    pip install scikit-learn skl2onnx
    python examples/train_wine.py

Data: the 178 wines of `sklearn.datasets.load_wine` (UCI "Wine", CC BY 4.0). Half of them are held out; beside their measurements lies
what scikit-learn itself says of them.
"""

from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parent / "data" / "wine"
GROWERS = np.array(["Alba", "Barolo", "Canale"])
"""Names given to the three growers, whom the data set numbers."""


def main() -> None:
    wines = load_wine()
    names = GROWERS[wines.target]
    train, test, train_names, test_names = train_test_split(
        wines.data.astype(np.float32), names, test_size=0.5, stratify=names, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(20, max_depth=4, random_state=0))
    pipeline.fit(train, train_names)
    model = to_onnx(pipeline, train[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    (FOLDER / "wine.onnx").write_bytes(model.SerializeToString())
    told = {"predicted": pipeline.predict(test).astype("U"), "probabilities": pipeline.predict_proba(test).astype(np.float32)}
    np.savez_compressed(FOLDER / "wines.npz", wines=test, growers=test_names, **told)


if __name__ == "__main__":
    main()
