"""Writes a product or a convolution with its element-wise operations as CUDA."""

from __future__ import annotations

from tilewright.targets.cuda.models.formulas import PRODUCT
from tilewright.targets.cuda.models.host import Host, Reader, indented, leaves
from tilewright.targets.cuda.models.places import count
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
    moves = begins.windows
    axes = len(begins.filters.shape) - 2
    groups = host.size(begins.groups)
    images, channels = map(host.size, begins.images.shape[:2])  # the array may have another shape
    rows = host.size(begins.filters.shape[0])
    given = ["1"] * (3 - axes) + [host.size(size) for size in begins.images.shape[2:]]
    found = ["deep", "high", "wide"]
    sizes = dict[str, int]()
    for at, axis in enumerate("ZYX"):
        sizes |= {f"EXTENT_{axis}": moves.extent[at], f"STRIDE_{axis}": moves.stride[at],
                  f"PADDING_{axis}": moves.padding[at], f"DILATION_{axis}": moves.dilation[at],
                  f"SPREAD_{axis}": moves.spread[at]}  # fmt: skip
    results = [host.size(size) for size in begins.results]
    names = zip(found, ["1"] * (3 - axes) + results, strict=True)
    extents = ", ".join(f"{name} = {size}" for name, size in names)
    return left, (
        f"  int groups = {groups}, images = {images} * groups;\n"
        f"  int rows = {rows} / groups, channels = {channels} / groups;\n"
        f"  int terms = channels * WINDOW, {extents}, columns = deep * high * wide;\n"
        "  size_t left_step = (size_t)rows * terms;\n"
        f"  Right factor{{{right}.data_ptr<float>(), channels, {', '.join(given)}, high, wide, "
        "groups};\n  bool vectors = terms % 4 == 0;\n"
    ), "patches", sizes  # fmt: skip


def _added(model: Recognised, host: Host) -> tuple[str, list[str]]:
    """The code for each element of a product: a struct, a function, and the struct's members."""
    reader = Reader(host, "added.", places=count(model.grid))
    written = reader.written({}, [])
    result = written.value(model.formula)
    members, values = list[str](), list[str]()
    for element in leaves(model.formula):
        name = reader.array(element)
        members.append(f"const {element.kind} *{name};")
        values.append(f"{name}.data_ptr<{element.kind}>()")
    for size, name in host.passed.items():
        members.append(f"unsigned {name};")
        values.append(f"(unsigned)({host.size(size)})")
    lines = indented(written.lines, 2)
    return (
        f"struct Added {{ {' '.join(members)} float *origin; }};\n"
        "// An element of the result, of an element of the product and its place.\n"
        "__device__ float finished(const Added &added, const float *to, int, float value) {\n"
        "  unsigned place = (unsigned)(to - added.origin);\n"
        f"{lines}\n  return {result};\n}}"
    ), values
