"""What the kernel must compute: out = lhsT transposed * rhs."""

import ml_dtypes
import numpy as np


def reference(lhsT: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Each parameter is the input array of the same name; return the output array."""
    exact = lhsT.astype(np.float64).T @ rhs.astype(np.float64)
    return exact.astype(ml_dtypes.bfloat16)
