"""Writes element-wise operations, operations on rows and scans of rows as CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.targets.cuda.models.formulas import (
    COLUMN,
    STARTS,
    Calculated,
    Formula,
    Total,
    is_of_a_row,
    operands,
    parts,
)
from tilewright.targets.cuda.models.host import Host, Reader, by_vectors, indented, leaves
from tilewright.targets.cuda.models.places import Element, count
from tilewright.targets.cuda.models.readings import Recognised, Scan

_KINDS = {"sum": "SUM", "most": "MOST", "least": "LEAST"}


def arrays_in_c(model: Recognised, host: Host) -> tuple[str, str, str]:
    """The kernel's parameters, the arguments that the launcher passes on, and the launcher's own
    parameters. All statements of the kernel must have been written before."""
    taken, passed, given = "", "", ""
    for element in leaves(_all_of(model)):
        name = reader(host).array(element)
        taken += f"const {element.kind} *{name}, "
        passed += f"{name}, "
        given += f"{name}.data_ptr<{element.kind}>(), "
    for size, name in host.passed.items():
        taken += f"unsigned {name}, "
        passed += f"{name}, "
        given += f"{host.size(size)}, "
    return taken, passed, given


def reader(host: Host, vectors: bool = False) -> Reader:
    """The expressions of a kernel whose arguments have no prefix."""
    return Reader(host, vectors=vectors, places=count(host.model.grid))


def _all_of(model: Recognised) -> Formula:
    """A formula with all elements of arrays from which a kernel computes."""
    if isinstance(model.begins, Scan):
        return Calculated("", (model.begins.of, model.formula))
    return model.formula


def element_body(
    formula: Formula, host: Host, known: Mapping[Formula, str]
) -> tuple[list[str], list[str], str]:
    """The loads of a thread's vectors, the statements for one element, and its value."""
    read = reader(host, vectors=True)
    loads = [
        f"Vector<WIDTH> v_{name} = ((const Vector<WIDTH> *){name})[i];"
        for part in parts(formula, known)
        if isinstance(part, Element) and by_vectors(part)
        for name in [read.array(part)]
    ]
    written = read.written({**known}, [])
    result = written.value(formula)
    return loads, written.lines, result


def row_phases(model: Recognised, host: Host) -> str:
    """The passes over a row: one for each sum or largest element, in order, and one for the
    result."""
    lines, known = list[str](), dict[Formula, str]()
    totals = [part for part in parts(model.formula) if isinstance(part, Total)]
    for number, total in enumerate(totals):
        _of_rows(model.formula, known, lines, host)
        kind, start = _KINDS[total.kind], STARTS[total.kind]
        name = f"total{number}"
        lines += [f"float {name} = {start};",
                  *_loop(_ROW, total.of, host, known, f"float part = {start};",
                         f"part = joined<{kind}>(part, {{}});",
                         f"{name} = joined<{kind}>({name}, part);"),
                  f"{name} = of_row<{kind}>({name}, parts);"]  # fmt: skip
        known[total] = name
    _of_rows(model.formula, known, lines, host)
    if is_of_a_row(model.formula):
        written = reader(host).written(dict(known), lines)
        value = written.value(model.formula)
        lines.append(f"if (there && threadIdx.x == 0) result[row] = {value};")
    else:
        lines += ["if (!there) return;",
                  *_loop(_ROW, model.formula, host, known, "Vector<WIDTH> found;",
                         "found.at[v] = {};",
                         "((Vector<WIDTH> *)result)[i] = found;")]  # fmt: skip
    return indented(lines, 2)


def _of_rows(formula: Formula, known: dict[Formula, str], lines: list[str], host: Host) -> None:
    """Values that are the same for a whole row and follow from known values are computed only
    once."""
    waiting = set[Formula]()  # for the value of a total
    for part in parts(formula, dict(known)):
        if isinstance(part, Total) or any(one in waiting for one in operands(part)):
            waiting.add(part)
        elif isinstance(part, Calculated) and is_of_a_row(part):
            reader(host).written(known, lines).value(part)


_ROW = (
    ("for (unsigned i = begin + threadIdx.x; i < begin + length; i += THREADS) {",),
    "(i - begin) * WIDTH + v",
)
"""The beginning of a pass over the vectors of a row, and the number of an element in it."""
_COLUMNS = (
    (
        "for (int e = threadIdx.y; e < columns; e += PARTS) {",
        "  unsigned i = begin + e * vectors;",
    ),
    "e",
)
"""The same for rows whose elements are not adjacent."""


def _loop(
    over: tuple[Sequence[str], str], formula: Formula, host: Host, known: Mapping[Formula, str],
    before: str, last: str, after: str,
) -> list[str]:  # fmt: skip
    """A pass over rows: the statements for a thread's vectors, and `last` with the value of each
    element. `before` and `after` may be empty."""
    head, number = over
    loads, lines, value = element_body(formula, host, known)
    if COLUMN in set(parts(formula, known)):
        lines.insert(0, f"float {COLUMN.text} = (float)({number});")
    return [
        *head,
        *(f"  {line}" for line in [before, *loads] if line),
        "#pragma unroll",
        "  for (int v = 0; v < WIDTH; v++) {",
        "    unsigned place = i * WIDTH + v;",
        *(f"    {line}" for line in lines),
        f"    {last.format(value)}",
        "  }",
        *([f"  {after}"] if after else []),
        "}",
    ]


def column_phases(model: Recognised, host: Host) -> str:
    """As `row_phases`, for rows whose elements are not adjacent: a thread computes WIDTH of them at
    a time, so that there are as many sums or largest elements."""
    lines, known = list[str](), dict[Formula, str]()
    totals = [part for part in parts(model.formula) if isinstance(part, Total)]
    for number, total in enumerate(totals):
        kind, start = _KINDS[total.kind], STARTS[total.kind]
        name = f"total{number}"
        lines += [f"float {name}[WIDTH];",
                  f"for (int v = 0; v < WIDTH; v++) {name}[v] = {start};",
                  *_loop(_COLUMNS, total.of, host, known, "",
                         f"{name}[v] = joined<{kind}>({name}[v], {{}});", ""),
                  f"of_columns<{kind}, WIDTH>({name}, parts);"]  # fmt: skip
        known[total] = f"{name}[v]"
    if is_of_a_row(model.formula):
        written = reader(host).written(dict(known), [])
        value = written.value(model.formula)
        lines += ["if (!there || threadIdx.y > 0) return;",
                  "for (int v = 0; v < WIDTH; v++) {",
                  *(f"  {line}" for line in written.lines),
                  f"  result[row * WIDTH + v] = {value};", "}"]  # fmt: skip
    else:
        lines += ["if (!there) return;",
                  *_loop(_COLUMNS, model.formula, host, known, "Vector<WIDTH> found;",
                         "found.at[v] = {};",
                         "((Vector<WIDTH> *)result)[i] = found;")]  # fmt: skip
    return indented(lines, 2)


def scan_words(model: Recognised, scan: Scan, host: Host) -> dict[str, str]:
    """The words of the template for a scan."""
    adjacent = not scan.inner

    def statements(formula: Formula, end: str) -> str:
        written = reader(host).written({}, [])
        value = written.value(formula)
        return indented([*written.lines, end.format(value)], 8)

    return {
        "LANES": "1" if adjacent else "32, 64, 16",
        "PARTS": "128, 64, 256, 32" if adjacent else "8, 16, 4, 2",
        "SIGN": scan.sign,
        "START": "0" if scan.sign == "+" else "1",
        # In another order, products of floats could leave their range, or lose digits near its end.
        "NUMBER": "float" if scan.sign == "+" else "double",
        "SCANNED": statements(scan.of, "own = joined(own, {});"),
        "BODY": statements(model.formula, "result[place] = {};"),
    }
