"""What the kernel must compute: out = x * sigmoid(gate)."""

import numpy as np


def reference(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """Each parameter is the input array of the same name; return the output array."""
    return (x.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64)))).astype(np.float32)
