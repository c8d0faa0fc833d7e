"""Texts of a new kernel folder, from a target's template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.core.records import Argument, FolderTemplate, KernelLanguage, Workload
from tilewright.parts.element_types import c_type


@dataclass(frozen=True, slots=True)
class Description:
    """The content of `workload.toml` besides the arguments.

    `tolerance` contains the absolute and the relative error, or nothing if the target's rule
    applies. `inputs` contains the TOML text of the field `inputs` for arguments that need one, by
    name. `operations_note` is a comment on the number of operations.
    """

    name: str
    target: str
    operations: int
    reduction: int
    tolerance: tuple[float, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    operations_note: str = ""


def from_template(
    name: str,
    target: str,
    workload: Workload,
    start: str,
    language: KernelLanguage,
    template: FolderTemplate,
) -> Mapping[str, str]:
    """The files of a complete folder: `workload`, its starting kernel and a reference."""
    description = Description(
        name,
        target,
        workload.operations,
        template.reduction,
        template.tolerance,
        {a.name: template.inputs for a in workload.arguments if a.is_given and template.inputs},
        "of this matrix product: rows * columns * terms of each sum",
    )
    head = (
        f"{language.comment} The starting kernel: correct, but slow. Replace it with your own "
        f"kernel\n{language.comment} of the same name, with the parameters in the order of "
        "workload.toml.\n"
    )
    return {
        "workload.toml": workload_toml(description, workload.arguments),
        "reference.py": template.reference.lstrip(),
        language.file: head + start,
    }


def parameters_in_c(arguments: Sequence[Argument]) -> str:
    """The parameters of a C kernel."""
    return ", ".join(
        f"{'const ' * (a.role == 'input')}{c_type(a.dtype)} {a.name}"
        + "".join(f"[{n}]" for n in a.shape)
        for a in arguments
    )


def workload_toml(description: Description, arguments: Sequence[Argument]) -> str:
    """A `workload.toml` with comments."""
    d = description
    note = f"  # {d.operations_note}" * bool(d.operations_note)
    parts = [
        "# What the kernel computes, on which target and on which arrays. docs/targets.md explains",
        "# all fields. `tilewright init --schema` prints a JSON Schema for editors.",
        f"name = {json.dumps(d.name)}",
        f"target = {json.dumps(d.target)}",
        "",
        "# Multiply-adds that one call must perform. The utilisation is computed from this number.",
        f"operations = {d.operations}{note}",
        "",
        "# Approximate number of terms in the sum of each output (64 by default).",
        "# tilewright scales the inputs accordingly, so that the outputs spread over their range.",
        f"reduction = {d.reduction}",
        "",
        "# Arrays in the order of the kernel's parameters, row-major.",
    ]
    for argument in arguments:
        parts += [
            "[[argument]]",
            f'name = "{argument.name}"',
            f"shape = {list(argument.shape)}",
            f'dtype = "{argument.dtype}"',
            f'role = "{argument.role}"  # input, output or inout',
        ]
        if argument.name in d.inputs:
            parts.append(
                f"inputs = {d.inputs[argument.name]}  # how its random values are generated"
            )
        parts.append("")
    if d.tolerance:
        parts += [
            "# A result is correct if |got - expected| <= absolute + relative * |expected|",
            "# (docs/tolerance.md explains how to choose these two numbers).",
            "[tolerance]",
            f"absolute = {d.tolerance[0]!r}",
            f"relative = {d.tolerance[1]!r}",
        ]
    else:
        parts += [
            "# Integers are compared exactly. Floating-point outputs may have up to four times the "
            "error",
            "# of straightforward arithmetic. To allow a different error (docs/tolerance.md):",
            "# [tolerance]",
            "# absolute = 0.001",
            "# relative = 0.001",
        ]
    return "\n".join(parts) + "\n"
