"""Writes a recognised model as CUDA: its formula as statements in a template, and the function that
Python calls.

relu(value + a2[place % a2_count])    __device__ float finished(...) { ... }
                                      torch::Tensor answer(torch::Tensor a0, ...) { ... }
"""

from __future__ import annotations

from tilewright.targets.cuda.models.host import Host, indented
from tilewright.targets.cuda.models.product_statements import product_texts
from tilewright.targets.cuda.models.readings import Recognised
from tilewright.targets.cuda.models.row_statements import (
    arrays_in_c,
    column_phases,
    element_body,
    row_phases,
)
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.templates import filled, read


def texts_of(
    model: Recognised, architecture: Architecture, lowest: str
) -> dict[str, tuple[str, Host]]:
    """The text of each template for a model by name, and the function that Python calls."""
    if model.begins is not None:
        return {
            name: (_function(text, model, host, body, before=True), host)
            for name, (text, body, host) in product_texts(model, architecture, lowest).items()
        }
    host = Host(model)
    taken, passed, given = arrays_in_c(model, host)
    words = {"TAKEN": taken, "PASSED": passed}
    if model.columns:
        adjacent = not model.inner
        words["PHASES"] = (row_phases if adjacent else column_phases)(model, host)
        more = "" if adjacent else f", {host.product(model.inner)}"
        call = f"launch({given}result.data_ptr<float>(), rows, columns{more});"
        body = (f"  int columns = {host.product(model.columns)};\n"
                f"  int rows = (int)({host.product(model.grid)}) / columns;\n")  # fmt: skip
        text = filled(read("reductions" if adjacent else "columns"), words)
        return {
            "rows" if adjacent else "columns": (
                _function(text, model, host, f"{body}  {call}\n"),
                host,
            )
        }
    loads, lines, value = element_body(model.formula, host, {})
    words |= {"LOADS": indented(loads, 4), "BODY": indented(lines, 6), "VALUE": value}
    call = f"  launch({given}result.data_ptr<float>(), (unsigned)result.numel());\n"
    return {"elements": (_function(filled(read("elements"), words), model, host, call), host)}


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
