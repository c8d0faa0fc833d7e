"""The thirty workloads of the paper's Table 1 (ICS'24), by identifier, batch 1, fp32."""

from tilewright.core.errors import UnknownNameError
from tilewright.tuner.workload import TensorWorkload, conv2d, matmul

# M, N, K
MATMULS: dict[str, tuple[int, int, int]] = {
    "M0": (512, 64, 1024),
    "M1": (512, 4096, 1024),
    "M2": (512, 64, 768),
    "M3": (512, 3072, 768),
    "M4": (512, 1024, 4096),
    "M5": (512, 768, 3072),
}

# out channels, in channels, input height and width, kernel, stride; padding is kernel // 2
CONVOLUTIONS: dict[str, tuple[int, int, int, int, int]] = {
    "R0": (64, 3, 224, 7, 2),
    "R1": (64, 64, 56, 1, 1),
    "R2": (64, 64, 56, 3, 1),
    "R3": (256, 64, 56, 1, 1),
    "R4": (128, 256, 56, 1, 2),
    "R5": (128, 128, 28, 3, 1),
    "R6": (512, 128, 28, 1, 1),
    "R7": (256, 512, 28, 1, 2),
    "R8": (256, 256, 14, 3, 1),
    "R9": (1024, 256, 14, 1, 1),
    "R10": (512, 1024, 14, 1, 2),
    "R11": (512, 512, 7, 3, 1),
    "R12": (2048, 512, 7, 1, 1),
    "Y0": (32, 3, 544, 3, 1),
    "Y1": (64, 32, 272, 3, 1),
    "Y2": (128, 64, 136, 3, 1),
    "Y3": (64, 128, 136, 1, 1),
    "Y4": (256, 128, 68, 3, 1),
    "Y5": (128, 256, 68, 1, 1),
    "Y6": (512, 256, 68, 3, 1),
    "Y7": (512, 256, 34, 3, 1),
    "Y8": (256, 512, 34, 1, 1),
    "Y9": (1024, 512, 17, 3, 1),
    "Y10": (512, 1024, 17, 1, 1),
}

IDENTIFIERS: tuple[str, ...] = (*MATMULS, *CONVOLUTIONS)


def benchmark_workload(identifier: str) -> TensorWorkload:
    """The workload with this identifier in the paper, such as `M0` or `R11`.

    For an unknown identifier, `UnknownNameError` suggests the most similar one.
    """
    if identifier in MATMULS:
        m, n, k = MATMULS[identifier]
        return matmul(m, n, k, name=identifier)
    if identifier in CONVOLUTIONS:
        out_channels, in_channels, size, kernel, stride = CONVOLUTIONS[identifier]
        return conv2d(
            1, in_channels, size, size, out_channels, kernel, stride, kernel // 2, name=identifier
        )
    raise UnknownNameError(
        "tensor workload", identifier, IDENTIFIERS, "The identifiers are M0-M5, R0-R12 and Y0-Y10."
    )
