"""Refuses kernels whose parameters have other element types than the workload's arrays.

C links a kernel that was written for int8 to float32 arrays without a warning. Such a kernel would
fail with a wrong result or an access outside the arrays, from which the mistake is hard to
recognise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument, Failed
from tilewright.parts.languages import C
from tilewright.parts.languages.c import without_comments
from tilewright.targets.gemmini.instance import Instance

_KERNEL = re.compile(r"\bvoid\s+kernel\s*\(([^)]*)\)")
_TYPES: Mapping[str, str] = {
    "int8_t": "int8",
    "uint8_t": "uint8",
    "int16_t": "int16",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "float": "float32",
    "double": "float64",
}


def check_types(source: str, arguments: Sequence[Argument], instance: Instance) -> Failed | None:
    """A `compile_error` naming the first parameter of a wrong type.

    None if all types fit, or if the parameters cannot be found in the text.
    """
    match = _KERNEL.search(without_comments(source))
    if match is None:
        return None
    parameters = match.group(1).split(",")
    if len(parameters) != len(arguments):
        return None
    types = {**_TYPES, "elem_t": instance.element.dtype, "acc_t": instance.sum.dtype}
    for parameter, argument in zip(parameters, arguments, strict=True):
        word = next((w for w in re.findall(r"\w+", parameter) if w in types), None)
        if word is not None and types[word] != argument.dtype:
            line = source[: match.start()].count("\n") + 1
            return Failed(
                "build",
                "compile_error",
                C.located(
                    f"error: parameter {argument.name} is {word}, and the workload's "
                    f"{argument.name} has the type {argument.dtype}: the kernel was written for "
                    f"another configuration than {instance.name} ({instance.summary}).",
                    line,
                ),
                line,
            )
    return None
