"""Kernels of our own with free parameters, by kind of workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.shapes import Shape

FOLDER = Path(__file__).with_name("library") / "templates"
_FILES = {
    "gemm": "product",
    "matmul3d": "product",
    "conv2d": "convolution",
    "conv2dbias": "convolution",
    "conv3d": "convolution",
    "softmax": "rows",
    "rowsum": "rows",
    "chain": "chain",
    "stencil": "stencil",
}
_BINDINGS = {
    "gemm": "int rows = M;\n  const float *right = B;",
    "matmul3d": "int rows = B * M;\n  const float *right = W;",
    "conv2d": "int depth = 1;\n  const float *added = nullptr;",
    "conv2dbias": "int depth = 1;\n  const float *added = bias;",
    "conv3d": "int depth = D;\n  const float *added = nullptr;",
}
"""What a launcher calls the things that differ between kinds of workload with one template."""


def templates_of(shape: Shape) -> Mapping[str, str]:
    """The text of each template by its name, with the launcher of the workload."""
    name, values = _FILES[shape.kind], shape.values
    window = values.get("R", 1)
    words = {
        **values,
        "DEEP": window if "D" in values else 1,
        "WIDE": values.get("S", window),
        "T": values.get("T", 1),
        "P": values.get("P", 0),
        "SOFTMAX": str(shape.kind == "softmax").lower(),
    }
    text = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", str(value))
    text = text.replace("BINDINGS", _BINDINGS.get(shape.kind, ""))
    return {name: text.replace("PARAMETERS", parameters(shape.arguments, shape.sizes))}
