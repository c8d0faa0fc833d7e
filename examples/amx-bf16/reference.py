"""What the kernel must compute: C = A * B of bfloat16 numbers, summed in float32.

The kernel receives bfloat16 numbers as their 16 bits, in arrays of uint16.
"""

import ml_dtypes
import numpy as np


def bfloat16_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Values of one input; workload.toml names this function."""
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16).view(np.uint16)


def reference(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Each parameter is the input array of the same name; return the output array."""
    left, right = (bits.view(ml_dtypes.bfloat16).astype(np.float64) for bits in (A, B))
    return (left @ right).astype(np.float32)
