"""TVM's CUDA code as one file in C++ that defines a host function `kernel`, as kernels of the
target `cuda` do.

Such a file needs no TVM: any program that has the arrays can call it.
"""

from __future__ import annotations

import re
from typing import Any

from tilewright.tuner.tvm.analysis import dtype_of, output_position
from tilewright.tuner.tvm.lowered import launch_extents

_POINTERS = {"float32": "float", "float64": "double", "int32": "int", "int8": "signed char"}
"""The C++ type of elements of each type. Kernels with other types are not written."""
_BEGINS = re.compile(
    r"^(?:extern \"C\" __global__|__forceinline__|__device__|static|struct|template)", re.MULTILINE
)
"""The first line after the header that TVM writes for every compiler."""
_DECLARED = re.compile(r"^extern \"C\" (__global__ [^;{]*);\n", re.MULTILINE)
_KERNEL = re.compile(
    r"^extern \"C\" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)", re.MULTILINE
)
_OF_HEADER = re.compile(r"\b(?:uint|uchar|ushort)\b")
"""Macros of the header, which stand for types."""
_TEMPORARY = re.compile(r"\b__(\d+)\b")
"""A variable of TVM. Names that begin with two underscores belong to the compiler."""
_UNSIGNED = {"uint": "unsigned int", "uchar": "unsigned char", "ushort": "unsigned short"}


def launchable(function: Any, module: Any, source: str) -> tuple[str | None, str]:
    """The source with a host function `kernel` that takes the arrays of `function` in order, and an
    empty text. If there can be no such source: None, and the reason as the end of a sentence.

    `module` is the scheduled module, and `source` the CUDA code that TVM generated for it.
    """
    begins = _BEGINS.search(source)
    kernels = _KERNEL.findall(_DECLARED.sub("", source))
    if begins is None or len(kernels) != 1:
        return None, f"its CUDA code has {len(kernels)} GPU functions instead of one"
    if "extern __shared__" in source:
        return None, "its CUDA code uses dynamic shared memory"
    ((name, declared),) = kernels
    output = output_position(function)
    given = {}
    for number, parameter in enumerate(function.params):
        kind = _POINTERS.get(dtype_of(parameter))
        if kind is None:
            return None, f"it has an array of type {dtype_of(parameter)}"
        const = "" if number == output else "const "
        given[f"{parameter.name}_ptr"] = (f"{const}{kind} *a{number}", f"({kind} *)a{number}")
    passed = [part.split()[-1].lstrip("*") for part in declared.split(",")]
    if not set(passed) <= given.keys():
        return None, "its GPU function takes other parameters than the arrays of the workload"
    device = _DECLARED.sub("", source[begins.start() :]).replace('extern "C" ', "static ")
    device = _OF_HEADER.sub(lambda macro: _UNSIGNED[macro[0]], device).strip()
    device = _TEMPORARY.sub(r"temporary_\1", device)
    grid, block = (", ".join(map(str, sizes)) for sizes in launch_extents(module))
    parameters = ", ".join(parameter for parameter, _ in given.values())
    arguments = ", ".join(given[one][1] for one in passed)
    found = (
        f"#include <cstdint>\n#include <cuda_runtime.h>\n\n{device}\n\n"
        f"void kernel({parameters}) {{\n"
        f"  {name}<<<dim3({grid}), dim3({block})>>>({arguments});\n}}\n"
    )
    return found, ""
