"""joblib, as scikit-learn's users have it: `Parallel` over parts, processes that stay from call to call.

    python examples/scale_out/with_joblib.py

With `prefer="threads"` all parts share one session, and nothing is copied: the better choice unless other code holds the GIL.
"""

import numpy as np
from joblib import Parallel, delayed
from scoring import probabilities, report, test_images


def main() -> None:
    parts = np.array_split(test_images(), 8)
    for prefer in ("processes", "threads"):
        report(np.concatenate(Parallel(n_jobs=2, prefer=prefer)(delayed(probabilities)(part) for part in parts)))


if __name__ == "__main__":
    main()
