"""Answers that tilewright writes: the first one for a known workload, and answers that are wrong
for any model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument
from tilewright.targets.cuda.launcher import POINTERS, parameters
from tilewright.targets.cuda.models.answer_arguments import Form
from tilewright.targets.cuda.models.answer_values import TYPES
from tilewright.targets.cuda.shapes import KINDS, Shape

_ANSWER = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

TEXT"""

extension = load_inline(
    name="answer", cpp_sources="DECLARED", cuda_sources=SOURCE, functions=[NAMES]
)


class ModelNew(nn.Module):
    def __init__(INITIAL):
        super().__init__()

    def forward(self, GIVEN):
        return RETURNED
'''
_FILL = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>

template <class T, class V> __global__ void fill(T *to, const V *from, long count, long given) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from ? (T)from[i % given] : (T)0;
}
"""


def hostile_answers(form: Form) -> Mapping[str, str]:
    """Answers that must fail, by a description of what they do."""
    found = {"writes zeros": _filled(form, None)}
    given = next((a for a in form.inputs if isinstance(a, Argument)), None)
    if given is not None:
        found[f"copies {given.name}"] = _filled(form, given)
    return found


def _filled(form: Form, source: Argument | None) -> str:
    names = [f"x{i}" for i in range(len(form.inputs))]
    taken = next((n for n, a in zip(names, form.inputs, strict=True) if isinstance(a, Argument)),
                 "torch.empty(1)")  # fmt: skip
    text, calls = _FILL, list[str]()
    for number, output in enumerate(form.outputs):
        count, shape = math.prod(output.shape), ", ".join(map(str, output.shape))
        from_, elements = "(const char *)nullptr", 1
        if source is not None:
            from_ = f"(const {POINTERS[source.dtype]} *)from.data_ptr()"
            elements = math.prod(source.shape)
        text += (
            f"\ntorch::Tensor answer{number}(torch::Tensor from) {{\n"
            f"  auto to = torch::empty({{{shape}}}, torch::dtype(torch::k{TYPES[output.dtype]}));\n"
            f"  fill<<<{-(-count // 256)}, 256>>>(({POINTERS[output.dtype]} *)to.data_ptr(), "
            f"{from_}, {count}, {elements});\n  return to;\n}}\n"
        )
        calls.append(f"answer{number}")
    returned = ", ".join(f"extension.{call}({taken})" for call in calls)
    return _answer(text, calls, [taken] if taken == "x0" else [], names, returned, form)


def _answer(
    text: str, functions: Sequence[str], tensors: Sequence[str], given: Sequence[str],
    returned: str, form: Form | None = None,
) -> str:  # fmt: skip
    taken = ", ".join("torch::Tensor" for _ in tensors) or "torch::Tensor"
    initial = [f"a{i}" for i in range(len(form.initial) if form else 0)]
    words = {
        "TEXT": text,
        "DECLARED": " ".join(f"torch::Tensor {name}({taken});" for name in functions),
        "NAMES": ", ".join(f'"{name}"' for name in functions),
        "INITIAL": ", ".join(["self", *initial]),
        "GIVEN": ", ".join(given),
        "RETURNED": returned,
    }
    found = _ANSWER
    for word, value in words.items():
        found = found.replace(word, value)
    return found


def in_pytorch(problem: str) -> str:
    """A problem's own model as an answer. It is correct and contains no kernel."""
    found = re.sub(r"^class Model\b", "class ModelNew", problem, flags=re.MULTILINE)
    return re.sub(r"\bsuper\(\s*Model\s*,", "super(ModelNew,", found)


def first_answer(shape: Shape, plain: str) -> str | None:
    """An answer that calls the plain kernel of a workload, for any sizes of its inputs.

    None if some size is not the extent of a single axis of an input.
    """
    letters = KINDS[shape.kind].sizes
    probe = {letter: 10_000 + 7 * i for i, letter in enumerate(shape.values)}
    arrays = KINDS[shape.kind].arrays(probe)
    found = dict[str, str]()
    for array in reversed([a for a in arrays if a.is_given]):
        for axis, size in enumerate(array.shape):
            found |= {n: f"{array.name}.size({axis})" for n, v in probe.items() if v == size}
    outputs = [a for a in arrays if a.is_written]
    names = {value: letter for letter, value in probe.items()}
    if set(found) != set(shape.values) or any(s not in names for a in outputs for s in a.shape):
        return None
    output, given = outputs[0], [a.name for a in arrays if a.is_given]
    sizes = ", ".join(f"{letter} = (int){found[letter]}" for letter in letters)
    pointers = ", ".join(f"{a.name}.data_ptr<float>()" for a in arrays)
    taken = ", ".join(f"torch::Tensor {name}" for name in given)
    launcher = parameters(arrays, {}) + "".join(f", int {letter}" for letter in letters)
    text = plain.replace("void kernel(PARAMETERS)", f"static void launch({launcher})")
    text += (
        f"\ntorch::Tensor answer({taken}) {{\n  int {sizes};\n"
        f"  auto {output.name} = torch::empty({{{', '.join(names[s] for s in output.shape)}}}, "
        f"{given[0]}.options());\n"
        f"  launch({pointers}, {', '.join(letters)});\n  return {output.name};\n}}\n"
    )
    return _answer(text, ["answer"], given, given, f"extension.answer({', '.join(given)})")
