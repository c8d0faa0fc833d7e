"""What the kernel must compute: C = relu(A * B + bias), saturated to int8."""

import numpy as np


def reference(A: np.ndarray, B: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Each parameter is the input array of the same name; return the output array."""
    exact = A.astype(np.int64) @ B.astype(np.int64) + bias
    return np.clip(exact, 0, 127).astype(np.int8)
