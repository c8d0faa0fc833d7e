"""Triton kernels with free parameters that come with tilewright, by kind of workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.shapes import Shape
from tilewright.targets.cuda.templates import filled, ways

FOLDER = Path(__file__).with_name("library") / "templates"
_PRODUCTS: Mapping[str, Mapping[str, object]] = {
    "gemm": {"RIGHT": "B", "ROWS": "M", "SPLITS": "1, 4, 16, 64"},
    "matmul3d": {"RIGHT": "W", "ROWS": "B * M", "SPLITS": "1, 4, 16, 64"},
}
_CONVOLUTIONS: Mapping[str, Mapping[str, object]] = {
    "conv2d": {"ADDED": "X", "BIAS": False},
    "conv2dbias": {"ADDED": "bias", "BIAS": True},
}
"""The argument for the numbers that are added to each filter's results. For a convolution without a
bias, any other array is passed.
"""


def templates_of(shape: Shape, architecture: Architecture, lowest: str) -> Mapping[str, str]:
    """The text of each template by name, with the launcher of the workload.

    `lowest` is the lowest precision class that is accepted, empty for float32.
    """
    if shape.kind in _PRODUCTS:
        file, words = "products", _PRODUCTS[shape.kind]
    elif shape.kind in _CONVOLUTIONS:
        file, words = "convolutions", _CONVOLUTIONS[shape.kind]
    else:
        return {shape.kind: _text(shape, shape.kind, {})}
    found = {}
    for name, sums in ways(architecture, lowest).items():
        precision = "tf32" if sums == "tensor_cores" else "ieee"
        shared = architecture.block_shared_kib << 10
        found[name] = _text(shape, file, {**words, "PRECISION": precision, "SHARED": shared})
    return found


def _text(shape: Shape, file: str, words: Mapping[str, object]) -> str:
    text = (FOLDER / f"{file}.py").read_text(encoding="utf-8")
    return filled(text, {**words, **shape.values}).replace("PARAMETERS", parameters(shape))


def parameters(shape: Shape) -> str:
    """The parameters of a launcher: the arrays, then the sizes with those of the workload as
    defaults."""
    sizes = [f"{name}={size}" for name, size in shape.sizes.items()]
    return ", ".join([*(argument.name for argument in shape.arguments), *sizes])
