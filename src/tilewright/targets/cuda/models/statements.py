"""Writes the kernels of a recognised model as CUDA: their formulas as statements in templates, and
the function that Python calls.

relu(value + a2[place % a2_count])    __device__ float finished(...) { ... }
                                      torch::Tensor answer(torch::Tensor a0, ...) { ... }

The text of each of several kernels is in a namespace of its own, and its parameters are named after
its template: THREADS_OF_ROWS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.targets.cuda.models.host import Host, indented
from tilewright.targets.cuda.models.places import FLOAT
from tilewright.targets.cuda.models.product_statements import product_texts
from tilewright.targets.cuda.models.readings import Array, Convolution, Product, Recognised, Scan
from tilewright.targets.cuda.models.row_statements import (
    arrays_in_c,
    column_phases,
    element_body,
    row_phases,
    scan_words,
)
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.templates import filled, read

_HEADER = "#include <torch/extension.h>\n"
_INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)
_PARAMETER = re.compile(r"^TUNE\((\w+), ([^)]*)\)(.*\n)", re.MULTILINE)
_CONSTRAINT = re.compile(r"^TUNE_REQUIRE\(.*\)\n", re.MULTILINE)
_MOST_POINTS = 100_000
"""Maximum number of combinations of the parameters' values, which are all tested."""


def texts_of(
    kernels: Sequence[Recognised], architecture: Architecture, lowest: str
) -> dict[str, tuple[str, Sequence[Array]]]:
    """The texts for a model by the names of their templates, each with the arrays that Python
    passes."""
    found = [_texts(kernel, architecture, lowest) for kernel in kernels]
    if len(found) == 1:
        return {name: (text, host.arrays) for name, (text, host) in found[0].items()}
    most = max(found, key=len)
    made = {}
    for name in most:
        steps = [(name, texts[name]) if name in texts else next(iter(texts.items()))
                 for texts in found]  # fmt: skip
        made[", ".join(dict.fromkeys(step for step, _ in steps))] = _joined(steps)
    return made


@dataclass
class _Parameters:
    """The parameters of the kernels of one answer. Kernels of one template share them."""

    points: int = 1
    declared: dict[str, str] = field(default_factory=dict)
    constraints: set[str] = field(default_factory=set)

    def renamed(self, text: str, suffix: str, number: int) -> str:
        """A kernel's text with parameters that other kernels do not declare differently."""
        for name, values, _ in _PARAMETER.findall(text):
            own = f"{name}_OF_{suffix}"
            if self.declared.get(own, values) != values:
                own += str(number)
            text = re.sub(rf"\b{name}\b", own, text)
        text = _PARAMETER.sub(self._declaration, text)
        return _CONSTRAINT.sub(self._constraint, text)

    def _declaration(self, found: re.Match[str]) -> str:
        name, values, rest = found.groups()
        if name in self.declared:
            return ""
        self.declared[name] = values
        count = values.count(",") + 1
        if self.points * count > _MOST_POINTS:
            values, count = values.partition(",")[0], 1
        self.points *= count
        return f"TUNE({name}, {values}){rest}"

    def _constraint(self, found: re.Match[str]) -> str:
        known = found[0] in self.constraints
        self.constraints.add(found[0])
        return "" if known else found[0]


def _joined(steps: Sequence[tuple[str, tuple[str, Host]]]) -> tuple[str, Sequence[Array]]:
    """Kernels that are launched one after the other as one text."""
    parameters, headers, given = _Parameters(), dict[str, None](), dict[str, Array]()
    texts, calls = "", list[str]()
    for number, (template, (text, host)) in enumerate(steps):
        suffix = re.sub(r"\W", "_", template).upper()
        headers |= dict.fromkeys(_INCLUDE.findall(text))
        body = parameters.renamed(_INCLUDE.sub("", text), suffix, number)
        texts += f"\nnamespace step{number} {{\n{body}}}  // namespace step{number}\n"
        for array in host.arrays:
            if not array.name.startswith("step "):
                given.setdefault(array.name, array)
        names = [array.name.replace(" ", "") if array.name.startswith("step ")
                 else f"a{list(given).index(array.name)}" for array in host.arrays]  # fmt: skip
        calls.append(f"step{number}::answer({', '.join(names)})")
    taken = ", ".join(f"torch::Tensor a{i}" for i in range(len(given)))
    lines = [f"  torch::Tensor step{i} = {call};" for i, call in enumerate(calls[:-1])]
    body = "\n".join([*lines, f"  return {calls[-1]};"])
    text = f"{''.join(headers)}{texts}\ntorch::Tensor answer({taken}) {{\n{body}\n}}\n"
    return text, tuple(given.values())


def _texts(
    model: Recognised, architecture: Architecture, lowest: str
) -> dict[str, tuple[str, Host]]:
    """The text of each template for one kernel by name, and the function that launches it."""
    if isinstance(model.begins, Product | Convolution):
        return {
            name: (_function(text, model, host, body, before=True), host)
            for name, (text, body, host) in product_texts(model, architecture, lowest).items()
        }
    host = Host(model)
    words = {"KIND": model.kind}
    result = f"result.data_ptr<{model.kind}>()"
    if isinstance(model.begins, Scan):
        name, words = "scans", words | scan_words(model, model.begins, host)
    elif model.columns:
        name = "columns" if model.inner else "rows"
        words["PHASES"] = (column_phases if model.inner else row_phases)(model, host)
    else:
        name = "elements"
        loads, lines, value = element_body(model.formula, host, {})
        words |= {"LOADS": indented(loads, 4), "BODY": indented(lines, 6), "VALUE": value}
    taken, passed, given = arrays_in_c(model, host)
    words |= {"TAKEN": taken, "PASSED": passed}
    if isinstance(model.begins, Scan):
        body = (f"  int columns = {host.product(model.begins.columns)};\n"
                f"  launch({given}{result}, (unsigned)(result.numel() / columns), "
                f"columns, {host.product(model.begins.inner)});\n")  # fmt: skip
    elif model.columns:
        more = f", {host.product(model.inner)}" if model.inner else ""
        body = (f"  int columns = {host.product(model.columns)};\n"
                f"  int rows = (int)({host.product(model.grid)}) / columns;\n"
                f"  launch({given}{result}, rows, columns{more});\n")  # fmt: skip
    else:
        body = f"  launch({given}{result}, (unsigned)result.numel());\n"
    template = "reductions" if name == "rows" else name
    return {name: (_function(filled(read(template), words), model, host, body), host)}


def _function(text: str, model: Recognised, host: Host, body: str, before: bool = False) -> str:
    """The text followed by the function that launches its kernel."""
    taken = ", ".join(f"torch::Tensor {name}" for name in host.names.values())
    first = next(iter(host.names.values()))
    shape = ", ".join(host.size(size) for size in model.shape)
    options = f"{first}.options()"
    if host.arrays[0].kind != model.kind:
        options += f".dtype(torch::{'kFloat' if model.kind == FLOAT else 'kLong'})"
    made = f"  torch::Tensor result = torch::empty({{{shape}}}, {options});\n"
    if before:
        at = body.index("  Added added")
        body = body[:at] + made + body[at:]
    else:
        body = made + body
    return f"{_HEADER}{text}\ntorch::Tensor answer({taken}) {{\n{body}  return result;\n}}\n"
