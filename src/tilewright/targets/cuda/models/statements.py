"""Writes a recognised model as CUDA: its formula as statements in a template, and the function that
Python calls.

relu(value + a2[place % a2_count])    __device__ float finished(...) { ... }
                                      torch::Tensor answer(torch::Tensor a0, ...) { ... }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.targets.cuda.models.formulas import (
    PRODUCT,
    Calculated,
    Element,
    Formula,
    OtherError,
    Shape,
    Size,
    Total,
    Written,
    is_of_a_row,
    parts,
)
from tilewright.targets.cuda.models.recognition import Array, Convolution, Product, Recognised
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.templates import filled, product_text, read, ways

_LAUNCHER = (
    "static void launch(const float *left, Right right, Added added, float *result, int images, "
    "int rows,\n                   int columns, int terms, bool vectors) {"
)
_KINDS = {"sum": ("SUM", "0.0f"), "most": ("MOST", "-3.4e38f"), "least": ("LEAST", "3.4e38f")}


@dataclass
class Host:
    """The function that Python calls: its arrays, and how the sizes are computed from them."""

    model: Recognised

    names: dict[str, str] = field(default_factory=dict)
    arrays: list[Array] = field(default_factory=list)
    known: dict[Size, str] = field(default_factory=dict)

    def array(self, array: Array) -> str:
        """The name of an array in C."""
        if array.name not in self.names:
            self.names[array.name] = f"a{len(self.names)}"
            self.arrays.append(array)
        return self.names[array.name]

    def size(self, size: Size) -> str:
        """The expression for an extent, computed from the arrays."""
        if size[0] == size[1]:
            return str(size[0])
        for array in self.arrays:
            if size in self.model.arrays[array.name]:
                axis = self.model.arrays[array.name].index(size)
                return f"(int){self.names[array.name]}.size({axis})"
        if size in self.known:
            return self.known[size]
        raise OtherError("a size of its result does not follow from those of its arrays")

    def product(self, shape: Shape) -> str:
        """The expression for the number of elements of a shape."""
        return " * ".join(self.size(size) for size in shape) or "1"


def texts_of(
    model: Recognised, architecture: Architecture, lowest: str
) -> dict[str, tuple[str, Host]]:
    """The text of each template for a model by name, and the function that Python calls."""
    if model.begins is not None:
        return _products(model, architecture, lowest)
    host = Host(model)
    taken, passed, given = _arrays(model, host)
    words = {"TAKEN": taken, "PASSED": passed}
    if model.columns:
        words["PHASES"] = _phases(model, host)
        call = f"launch({given}result.data_ptr<float>(), rows, columns);"
        body = (f"  int columns = {host.product(model.columns)};\n"
                f"  int rows = (int)({host.product(model.grid)}) / columns;\n")  # fmt: skip
        text = filled(read("reductions"), words)
        return {"rows": (_function(text, model, host, f"{body}  {call}\n"), host)}
    loads, lines, value = _element_body(model.formula, host, {})
    words |= {"LOADS": _indented(loads, 4), "BODY": _indented(lines, 6), "VALUE": value}
    call = f"  launch({given}result.data_ptr<float>(), (unsigned)result.numel());\n"
    return {"elements": (_function(filled(read("elements"), words), model, host, call), host)}


def _products(
    model: Recognised, architecture: Architecture, lowest: str
) -> dict[str, tuple[str, Host]]:
    found = {}
    for name, way in ways(architecture, lowest).items():
        host = Host(model)
        begins = model.begins
        plain = model.formula == PRODUCT
        assert begins is not None
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
            f"  launch({left}.data_ptr<float>(), factor, added, result.data_ptr<float>(), images, "
            "rows, "
            "columns, terms, vectors);\n"
        )
        found[name] = _function(text, model, host, body, before=True), host
    return found


def _factors(begins: Product, host: Host) -> tuple[str, str, str, dict[str, int]]:
    """The left factor, the launcher's arguments, a description of the right factor, and the
    sizes."""
    left, right = host.array(begins.left), host.array(begins.right)
    body = (
        f"  int images = 1, terms = {host.size(begins.left.shape[-1])};\n"
        f"  int rows = (int)({left}.numel() / terms), columns = (int)({right}.numel() / terms);\n"
    )
    host.known.setdefault(begins.right.shape[-1], "columns")
    if begins.right.transposed:
        body += f"  Right factor{{{right}.data_ptr<float>(), terms}};\n"
        return left, f"{body}  bool vectors = terms % 4 == 0;\n", "transposed", {}
    body += f"  Right factor{{{right}.data_ptr<float>()}};\n"
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
        f"  int high = ({high} + 2 * PADDING - HIGH) / STRIDE + 1;\n"
        f"  int wide = ({wide} + 2 * PADDING - WIDE) / STRIDE + 1;\n"
        "  int columns = (depth - DEEP + 1) * high * wide;\n"
        f"  Right factor{{{right}.data_ptr<float>(), (int){right}.size(1), depth, {high}, {wide}, "
        "high, wide};\n  bool vectors = terms % 4 == 0;\n"
    ), "patches", sizes  # fmt: skip


def _added(model: Recognised, host: Host) -> tuple[str, list[str]]:
    """The code for each element of a product: a struct, a function, and the struct's members."""
    leaves = _leaves(model.formula, host)
    members, values = list[str](), list[str]()
    for element, name in leaves.items():
        members.append(f"const float *{name};")
        values.append(f"{name}.data_ptr<float>()")
        if not element.whole:
            members.append(f"int {name}_inner, {name}_count;")
            values += [host.product(element.inner), f"(int){name}.numel()"]
    known: dict[Formula, str] = {
        e: f"added.{n}[{_place(e, f'added.{n}')}]" for e, n in leaves.items()
    }
    written = Written({**known}, [])
    result = written.value(model.formula)
    lines = _indented(written.lines, 2)
    return (
        f"struct Added {{ {' '.join(members)} float *origin; }};\n"
        "// An element of the result, of an element of the product and its place.\n"
        "__device__ float finished(const Added &added, const float *to, int, float value) {\n"
        "  unsigned place = (unsigned)(to - added.origin);\n"
        f"{lines}\n  return {result};\n}}"
    ), values


def _leaves(formula: Formula, host: Host) -> dict[Element, str]:
    found = dict[Element, str]()
    for part in parts(formula):
        if isinstance(part, Element):
            known = [e for e in found if e.array == part.array]
            if known and known[0] != part:
                raise OtherError("it computes with one array in two ways")
            found[part] = host.array(Array(part.array, part.shape))
    return found


def _place(element: Element, name: str) -> str:
    if element.whole:
        return "place"
    return f"place / {name}_inner % {name}_count"


def _arrays(model: Recognised, host: Host) -> tuple[str, str, str]:
    """The kernel's parameters, the arguments that the launcher passes on, and the launcher's own
    parameters."""
    leaves = _leaves(model.formula, host)
    taken, passed, given = "", "", ""
    for element, name in leaves.items():
        taken += f"const float *{name}, "
        passed += f"{name}, "
        given += f"{name}.data_ptr<float>(), "
        if not element.whole:
            taken += f"int {name}_inner, int {name}_count, "
            passed += f"{name}_inner, {name}_count, "
            given += f"{host.product(element.inner)}, (int){name}.numel(), "
    return taken, passed, given


def _element_body(
    formula: Formula, host: Host, known: Mapping[Formula, str]
) -> tuple[list[str], list[str], str]:
    """The loads of a thread's vectors, the statements for one element, and its value."""
    leaves = _leaves(formula, host)
    reached = {e: n for e, n in leaves.items() if e in set(_reached(formula, known))}
    loads = [
        f"Vector<WIDTH> v_{n} = ((const Vector<WIDTH> *){n})[i];"
        for e, n in reached.items()
        if e.whole
    ]
    values: dict[Formula, str] = {
        e: f"v_{n}.at[v]" if e.whole else f"{n}[{_place(e, n)}]" for e, n in reached.items()
    }
    written = Written({**known, **values}, [])
    result = written.value(formula)
    return loads, written.lines, result


def _reached(formula: Formula, known: Mapping[Formula, str]) -> Sequence[Formula]:
    """The formulas inside one that have to be computed at this point, which excludes known ones."""
    found, waiting = list[Formula](), [formula]
    while waiting:
        one = waiting.pop()
        if one in known or one in found:
            continue
        found.append(one)
        if isinstance(one, Calculated):
            waiting += one.of
    return found


def _phases(model: Recognised, host: Host) -> str:
    """The passes over a row: one for each sum or largest element, in order, and one for the
    result."""
    lines, known = list[str](), dict[Formula, str]()
    totals = [part for part in parts(model.formula) if isinstance(part, Total)]
    for number, total in enumerate(totals):
        _of_rows(model.formula, known, lines)
        kind, start = _KINDS[total.kind]
        name = f"total{number}"
        lines += [f"float {name} = {start};",
                  *_loop(total.of, host, known, f"float part = {start};",
                         f"part = joined<{kind}>(part, {{}});",
                         f"{name} = joined<{kind}>({name}, part);"),
                  f"{name} = of_row<{kind}>({name}, parts);"]  # fmt: skip
        known[total] = name
    _of_rows(model.formula, known, lines)
    if is_of_a_row(model.formula):
        written = Written(dict(known), lines)
        value = written.value(model.formula)
        lines.append(f"if (there && threadIdx.x == 0) result[row] = {value};")
    else:
        lines += ["if (!there) return;",
                  *_loop(model.formula, host, known, "Vector<WIDTH> found;", "found.at[v] = {};",
                         "((Vector<WIDTH> *)result)[i] = found;")]  # fmt: skip
    return _indented(lines, 2)


def _of_rows(formula: Formula, known: dict[Formula, str], lines: list[str]) -> None:
    """Values that are the same for a whole row and follow from known values are computed only
    once."""
    for part in parts(formula):
        ready = isinstance(part, Calculated) and is_of_a_row(part) and part not in known
        inner = _reached(part, known)
        if ready and not any(isinstance(p, Total) for p in inner):
            written = Written(known, lines)
            written.value(part)


def _loop(
    formula: Formula, host: Host, known: Mapping[Formula, str], before: str, last: str, after: str
) -> list[str]:
    """A pass over a row: the statements for a thread's vectors, and `last` with the value of each
    element."""
    loads, lines, value = _element_body(formula, host, known)
    return [
        "for (unsigned i = begin + threadIdx.x; i < begin + length; i += THREADS) {",
        *(f"  {line}" for line in [before, *loads]),
        "#pragma unroll",
        "  for (int v = 0; v < WIDTH; v++) {",
        "    unsigned place = i * WIDTH + v;",
        *(f"    {line}" for line in lines),
        f"    {last.format(value)}",
        "  }",
        f"  {after}",
        "}",
    ]


def _function(text: str, model: Recognised, host: Host, body: str, before: bool = False) -> str:
    """The text followed by the function that Python calls."""
    taken = ", ".join(f"torch::Tensor {name}" for name in host.names.values())
    first = next(iter(host.names.values()))
    shape = ", ".join(host.size(size) for size in model.shape)
    made = f"  torch::Tensor result = torch::empty({{{shape}}}, {first}.options());\n"
    if before:
        at = body.index("  Added added")
        body = body[:at] + made + body[at:]
    else:
        body = made + body
    head = "#include <torch/extension.h>\n"
    return f"{head}{text}\ntorch::Tensor answer({taken}) {{\n{body}  return result;\n}}\n"


def _indented(lines: Sequence[str], by: int) -> str:
    return "\n".join(line if line.startswith("#") else " " * by + line for line in lines)
