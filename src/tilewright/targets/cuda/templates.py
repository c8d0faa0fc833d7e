"""Kernels with free parameters that come with tilewright, by kind of workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.shapes import Shape

FOLDER = Path(__file__).with_name("library") / "templates"
_PRODUCTS = ("gemm", "matmul3d", "conv2d", "conv2dbias", "conv3d")
_FILES = {"softmax": "rows", "rowsum": "rows", "chain": "chain", "stencil": "stencil"}
"""The templates of workloads that are not products."""
_PRODUCT = (
    "int images = 1, rows = {rows}, columns = N, terms = K;\n  "
    "size_t left_step = 0;\n  Right right{{{right}, 0}};\n  "
    "const float *left = A, *added = nullptr;\n  bool vectors = columns % 4 == 0 && terms % 4 == 0;"
)
_CONVOLUTION = (
    "int images = N, depth = {depth}, rows = K, terms = C * WINDOW;\n  size_t left_step = 0;\n  "
    "int deep = depth - EXTENT_Z + 1, high = (H + 2 * PADDING_Y - EXTENT_Y) / STRIDE_Y + 1;\n  "
    "int wide = (W + 2 * PADDING_X - EXTENT_X) / STRIDE_X + 1, columns = deep * high * wide;\n  "
    "Right right{{X, C, depth, H, W, high, wide, 1}};\n  "
    "const float *left = F, *added = {added};\n  bool vectors = terms % 4 == 0;"
)
_BINDINGS = {
    "gemm": _PRODUCT.format(rows="M", right="B"),
    "matmul3d": _PRODUCT.format(rows="B * M", right="W"),
    "conv2d": _CONVOLUTION.format(depth="1", added="nullptr"),
    "conv2dbias": _CONVOLUTION.format(depth="1", added="bias"),
    "conv3d": _CONVOLUTION.format(depth="D", added="nullptr"),
}
"""The code by which the launchers of the kinds of products differ."""
_LANES = """\
TUNE(RM, 8, 4)                // rows that a thread computes
TUNE(RN, 8, 4)                // columns
TUNE_REQUIRE(TM * TN >= 64 * RM * RN && BLOCKS * TM * TN <= 512 * RM * RN)"""
_ADDED = """\
typedef const float *Added;  // what each row has added to it
__device__ float finished(Added added, const float *, int row, float value) {
  return value + added[row];
}"""
_NOTHING_ADDED = """\
typedef const float *Added;  // nothing is added
__device__ float finished(Added, const float *, int, float value) { return value; }"""
"""A test of a pointer that is always null would be a condition with one result in all checks, for
which the check on the CPU needs further runs."""
_TENSOR_CORES = """\
TUNE(FM, 4, 2, 1)             // rows that a warp computes, in squares of 16 x 16
TUNE(FN, 2, 4, 1)             // columns
TUNE_REQUIRE(FM * FN >= 2 && FM * FN <= 8)
TUNE_REQUIRE(TM * TN >= 512 * FM * FN && BLOCKS * TM * TN <= 4096 * FM * FN)"""


def templates_of(shape: Shape, architecture: Architecture, lowest: str = "") -> Mapping[str, str]:
    """The text of each template by name, with the launcher of the workload."""
    if shape.kind in _PRODUCTS:
        names = ways(architecture, lowest)
        found = {name: _product(shape, architecture, way) for name, way in names.items()}
    else:
        name = _FILES[shape.kind]
        words = {"SOFTMAX": str(shape.kind == "softmax").lower()}
        found = {name: filled(read(name), words)}
    own = parameters(shape.arguments, shape.sizes)
    return {name: text.replace("PARAMETERS", own) for name, text in found.items()}


def _product(shape: Shape, architecture: Architecture, sums: str) -> str:
    """The block-wise product whose right factor is a matrix, or patches that are gathered from
    images."""
    values, window = shape.values, shape.values.get("R")
    sizes = {"EXTENT_Z": window if "D" in values else 1, "EXTENT_Y": window,
             "EXTENT_X": values.get("S", window)}  # fmt: skip
    for axis in "ZYX":
        flat = axis == "Z"
        sizes |= {
            f"STRIDE_{axis}": 1 if flat else values.get("T", 1),
            f"PADDING_{axis}": 0 if flat else values.get("P", 0),
            f"DILATION_{axis}": 1,
            f"SPREAD_{axis}": 1,
        }
    launcher = f"void kernel(PARAMETERS) {{\n  {_BINDINGS[shape.kind]}"
    part, splits = ("patches", "1") if window else ("matrix", "1, 4, 16, 64")
    added = _ADDED if shape.kind == "conv2dbias" else _NOTHING_ADDED
    return product_text(
        architecture, sums, part, splits, sizes, added, launcher, "Y" if window else "C"
    )


def product_text(
    architecture: Architecture, sums: str, right: str, splits: str, sizes: Mapping[str, object],
    added: str, launcher: str, result: str,
) -> str:  # fmt: skip
    """A product by blocks whose sums are computed by `lanes` or by `tensor_cores`.

    `right` is the kind of the right factor (`matrix`, `transposed`, `patches`), `splits` are the
    values of SPLIT, `sizes` are the sizes of windows, `added` is the code for each element, and
    `launcher` is the beginning of the function that writes `result`.
    """
    cores = sums == "tensor_cores"
    words = {
        "INCLUDES": "#include <mma.h>\n" if cores else "",
        "TUNED": _TENSOR_CORES if cores else _LANES,
        "SPLITS": splits,
        "SHARED": str(architecture.block_shared_kib << 10),
        "ADDED": added,
        "SUMS": read(f"parts/{sums}"),
        "LOAD_RIGHT": read(f"parts/{right}"),
        "LAUNCHER": launcher,
        "RESULT": result,
    }
    return filled(filled(read("blocks"), words), sizes)


def ways(architecture: Architecture, lowest: str) -> Mapping[str, str]:
    """The ways to compute sums, by the names of templates, the best one first.

    `lowest` is the lowest precision class that is accepted, empty for float32. If it is lower than
    float32, and the architecture's tensor cores support tf32, products first use tensor cores.
    """
    found = {"product": "lanes"}
    if lowest and architecture.name != "sm_75":
        found = {"product on tensor cores": "tensor_cores", **found}
    return found


def read(name: str) -> str:
    """The text of a template or of a part of one."""
    return (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


def filled(text: str, words: Mapping[str, object]) -> str:
    """The text with each `{WORD}` replaced."""
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", str(value))
    return text
