"""Writes a product or a convolution with its element-wise operations as CUDA."""

from __future__ import annotations

from tilewright.targets.cuda.models.formulas import PRODUCT, Formula, Written
from tilewright.targets.cuda.models.host import Host, indented, leaves, place
from tilewright.targets.cuda.models.readings import Convolution, Product, Recognised
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.templates import product_text, ways

_LAUNCHER = (
    "static void launch(const float *left, size_t left_step, Right right, Added added, "
    "float *result,\n                   int images, int rows, int columns, int terms, "
    "bool vectors) {"
)


def product_texts(
    model: Recognised, architecture: Architecture, lowest: str
) -> dict[str, tuple[str, str, Host]]:
    """The text of each template by name, the body of the function that Python calls up to its
    result, and the function's arrays."""
    found = {}
    for name, way in ways(architecture, lowest).items():
        host = Host(model)
        begins = model.begins
        plain = model.formula == PRODUCT
        assert isinstance(begins, Product | Convolution)
        if isinstance(begins, Convolution):
            left, body, part, sizes = _patches(begins, model, host)
        else:
            left, body, part, sizes = _factors(begins, host)
        added, members = _added(model, host)
        text = product_text(
            architecture, way, part, "1" if not plain or part == "patches" else "1, 4, 16, 64",
            sizes, added, _LAUNCHER, "result",
        )  # fmt: skip
        values = ", ".join([*members, "result.data_ptr<float>()"])
        body += (
            f"  Added added{{{values}}};\n"
            f"  launch({left}.data_ptr<float>(), left_step, factor, added, "
            "result.data_ptr<float>(), images, rows, columns, terms, vectors);\n"
        )
        found[name] = text, body, host
    return found


def _factors(begins: Product, host: Host) -> tuple[str, str, str, dict[str, int]]:
    """The left factor, the launcher's arguments, a description of the right factor, and the
    sizes."""
    left, right = host.array(begins.left), host.array(begins.right)
    images = host.product(begins.left.shape[:-2]) if len(begins.left.shape) > 2 else "1"
    body = (
        f"  int images = {images}, terms = {host.size(begins.left.shape[-1])};\n"
        f"  int rows = (int)({left}.numel() / terms) / images;\n"
        f"  int columns = (int)({right}.numel() / terms) / images;\n"
        "  size_t left_step = (size_t)rows * terms, right_step = (size_t)columns * terms;\n"
    )
    host.known.setdefault(begins.right.shape[-1], "columns")
    if begins.right.transposed:
        body += f"  Right factor{{{right}.data_ptr<float>(), right_step, terms}};\n"
        return left, f"{body}  bool vectors = terms % 4 == 0;\n", "transposed", {}
    body += f"  Right factor{{{right}.data_ptr<float>(), right_step}};\n"
    return left, f"{body}  bool vectors = columns % 4 == 0 && terms % 4 == 0;\n", "matrix", {}


def _patches(
    begins: Convolution, model: Recognised, host: Host
) -> tuple[str, str, str, dict[str, int]]:
    """The left operand, C statements and loader for a product of filters and patches of images."""
    left, right = host.array(begins.filters), host.array(begins.images)
    window = [one for one, _ in begins.filters.shape[2:]]
    axes = len(window)
    high, wide = f"(int){right}.size({axes})", f"(int){right}.size({axes + 1})"
    depth = "1" if axes == 2 else f"(int){right}.size(2)"
    sizes = {"DEEP": window[0] if axes == 3 else 1, "WIDE": window[-1], "R": window[-2],
             "T": begins.stride, "P": begins.padding}  # fmt: skip
    if len(model.grid) == axes + 2:
        extents = ("(depth - DEEP + 1)", "high", "wide")[-axes:]
        host.known.update(zip(model.grid[2:], extents, strict=True))
    return left, (
        f"  int images = (int){right}.size(0), rows = (int){left}.size(0), depth = {depth};\n"
        f"  int terms = (int){right}.size(1) * WINDOW;\n"
        "  size_t left_step = 0;\n"
        f"  int high = ({high} + 2 * PADDING - HIGH) / STRIDE + 1;\n"
        f"  int wide = ({wide} + 2 * PADDING - WIDE) / STRIDE + 1;\n"
        "  int columns = (depth - DEEP + 1) * high * wide;\n"
        f"  Right factor{{{right}.data_ptr<float>(), (int){right}.size(1), depth, {high}, {wide}, "
        "high, wide};\n  bool vectors = terms % 4 == 0;\n"
    ), "patches", sizes  # fmt: skip


def _added(model: Recognised, host: Host) -> tuple[str, list[str]]:
    """The code for each element of a product: a struct, a function, and the struct's members."""
    elements = leaves(model.formula, host)
    members, values = list[str](), list[str]()
    for element, name in elements.items():
        members.append(f"const float *{name};")
        values.append(f"{name}.data_ptr<float>()")
        if not element.whole:
            members.append(f"int {name}_inner, {name}_count;")
            values += [host.product(element.inner), f"(int){name}.numel()"]
    known: dict[Formula, str] = {
        e: f"added.{n}[{place(e, f'added.{n}')}]" for e, n in elements.items()
    }
    written = Written({**known}, [])
    result = written.value(model.formula)
    lines = indented(written.lines, 2)
    return (
        f"struct Added {{ {' '.join(members)} float *origin; }};\n"
        "// An element of the result, of an element of the product and its place.\n"
        "__device__ float finished(const Added &added, const float *to, int, float value) {\n"
        "  unsigned place = (unsigned)(to - added.origin);\n"
        f"{lines}\n  return {result};\n}}"
    ), values
