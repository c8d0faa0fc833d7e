"""Kernels that are wrong for every task, and must fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument
from tilewright.parts.hostile import under_own_names
from tilewright.targets.cuda.launcher import parameters

_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
"""The headers that declare types of elements. Compiling each of them takes 0.1 s, so it is included
only for arguments of its type.
"""
_HEAD = """\
template <class T, class V> __global__ void fill(T *to, const V *from, long count, long given) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from ? (T)from[i % given] : (T)0;
}
"""


def hostile_kernels(arguments: Sequence[Argument]) -> Mapping[str, str]:
    """CUDA sources of wrong kernels, by a description. They have parameters for any sizes, which
    they do not use.
    """
    names = [a.name for a in arguments]
    arguments = under_own_names(arguments)
    given = [a for a in arguments if a.is_given]
    written = [a for a in arguments if a.is_written]
    bodies = {
        "launches a kernel that does nothing": "  nothing<<<1, 1>>>();\n",
        "writes zeros": "".join(_filled(a, None) for a in written),
    }
    if given:
        name = names[arguments.index(given[0])]
        bodies[f"copies {name}"] = "".join(_filled(a, given[0]) for a in written)
    types = {a.dtype for a in arguments}
    headers = "".join(f"#include <{h}>\n" for t, h in _HEADERS.items() if t in types)
    head = f"{headers}__global__ void nothing() {{}}\n{_HEAD}"
    entry = f"template <class... Sizes> void kernel({parameters(arguments, {})}, Sizes...)"
    return {name: f"{head}{entry} {{\n{body}}}\n" for name, body in bodies.items()}


def _filled(argument: Argument, source: Argument | None) -> str:
    count = math.prod(argument.shape)
    from_, given = (
        (source.name, math.prod(source.shape)) if source else ("(const char *)nullptr", 1)
    )
    blocks = -(-count // 256)
    return f"  fill<<<{blocks}, 256>>>({argument.name}, {from_}, {count}, {given});\n"
