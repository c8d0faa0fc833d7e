"""Facts about a kernel in NKI that show which optimisations can help it.

They are found in its text and in the shapes of its tiles. A fact that is not found certainly does
not hold; one that is found may hold.
"""

from __future__ import annotations

import ast
import re

FACTS = {
    "products": "it multiplies matrices on PE",
    "transposes": "it transposes, or may load single elements at equal distances",
    "multiplications": "it multiplies element by element",
    "reductions": "it reduces along an axis",
    "tile-operands": "an operation has two tiles as operands",
    "masks": "it selects or masks elements, or compares positions",
    "sequential-ranges": "it has a loop over sequential_range",
    "idle-partitions": "a tile may have fewer than 128 partitions",
}
"""All facts, as texts."""

_GRIDS = r"\bnl\.(?:load|mgrid|arange)\b"
"""Names by which kernels in NKI 1 are recognised: there, operators compute with tiles."""
_PATTERNS = {
    "products": re.compile(r"matmul"),
    "transposes": re.compile(rf"transpos|(?<!nc_)matmul|\.ap\(|\.T\b|permute|rearrange|{_GRIDS}"),
    "multiplications": re.compile(rf"multiply|\bscale\b|square|{_GRIDS}"),
    "reductions": re.compile(rf"reduce|\b(?:sum|max|min|mean)\b|{_GRIDS}"),
    "tile-operands": re.compile(rf"(?<!scalar_)tensor_tensor(?!_scan)|broadcast|{_GRIDS}"),
    "masks": re.compile(r"mask|select|where|iota|tri[lu]|greater|less"),
    "sequential-ranges": re.compile(r"sequential_range"),
}
_PARTITIONS = 128


def facts_of(source: str) -> frozenset[str] | None:
    """The facts that may hold; None if the source is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = {fact for fact, pattern in _PATTERNS.items() if pattern.search(source)}
    if not _fills_partitions(tree):
        found.add("idle-partitions")
    return frozenset(found)


def _fills_partitions(tree: ast.AST) -> bool:
    """Whether all of the tiles that the kernel declares, one at least, have 128 partitions."""
    declared = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and any(k.arg == "buffer" and _is_on_chip(k.value) for k in node.keywords)
    ]
    return bool(declared) and all(_has_128(call) for call in declared)


def _is_on_chip(buffer: ast.expr) -> bool:
    """Whether a tile is not certainly in HBM."""
    return not (isinstance(buffer, ast.Attribute) and "hbm" in buffer.attr)


def _has_128(call: ast.Call) -> bool:
    shapes = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "shape")]
    if not shapes or not isinstance(shapes[0], ast.Tuple | ast.List) or not shapes[0].elts:
        return False
    first = shapes[0].elts[0]
    return isinstance(first, ast.Constant) and first.value == _PARTITIONS
