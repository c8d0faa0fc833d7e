"""What the kernel must compute: C = max(0, A * B + bias), in int32."""

import numpy as np


def reference(A: np.ndarray, B: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Each parameter is the input array of the same name; return the output array."""
    return np.maximum(A.astype(np.int32) @ B.astype(np.int32) + bias, 0)
