"""From an answer to a kernel of the target `cuda`: its CUDA texts, and a launcher that calls them.

    answer: CUDA texts, `forward`      kernel.cu: namespace tw_answer { texts }
                                                  void kernel(arrays) { what forward calls }

Lines keep their numbers where the answer's texts are literals of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.core.records import Argument, Failed
from tilewright.parts.languages import PYTHON
from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.models.answer import (
    Answer,
    Extension,
    Text,
    read_answer,
)
from tilewright.targets.cuda.models.form import Form
from tilewright.targets.cuda.models.forward import NAMESPACE, TYPES, Tensor, Translation
from tilewright.targets.cuda.models.unread import NotReadError, WrongError
from tilewright.targets.cuda.source import has_assembler, refused

HEADER = "tilewright_tensors.h"
"""What stands for PyTorch's headers, by the name under which compilers find it."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b[ \t]*[<"]([^>"\n]*)[>"][^\n]*', re.MULTILINE)
_PYTORCH = re.compile(r"(?:torch|ATen|c10)/[\w/]+\.h")
_LIBRARY = frozenset({
    "vector", "algorithm", "iostream", "cstdio", "stdio.h", "cstdlib", "stdlib.h", "string",
    "tuple", "utility", "cassert", "assert.h", "limits", "functional", "memory", "array", "numeric",
    "pybind11/pybind11.h",
})  # fmt: skip
"""Headers that answers ask for out of habit; what needs them does not compile."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_RESERVED = re.compile(r"\btw_\w+")


def translate(source: str, form: Form) -> str | Failed:
    """The kernel of an answer, or why there is none."""
    try:
        answer = read_answer(source)
        return _kernel(answer, form)
    except (WrongError, NotReadError) as error:
        return error.failed
    except RecursionError:
        return NotReadError("its expressions are nested too deeply", None).failed


def _kernel(answer: Answer, form: Form) -> str | Failed:
    tensors = {a.name: _given(a) for a in form.arguments if a not in form.outputs}
    translation = Translation(answer, form, tensors)
    returned = translation.translated()
    if len(returned) != len(form.outputs):
        raise WrongError(f"forward returns {len(returned)} tensors, and the reference model "
                         f"{len(form.outputs)}", answer.forward.lineno)  # fmt: skip
    if not answer.extensions:
        raise NotReadError("it hands no CUDA source to load_inline", None)
    texts = _joined(answer.extensions.values())
    if isinstance(texts, Failed):
        return texts
    return texts + _launcher(translation, form, returned)


def _given(argument: Argument) -> Tensor:
    return Tensor(f"tw_{argument.name}", argument.shape, argument.dtype)


def _joined(extensions: Iterable[Extension]) -> str | Failed:
    """All texts in one, each on its own lines, within a namespace; headers come before it."""
    texts = [text for e in extensions for text in e.texts]
    headers, parts = list[str](), list[Text]()
    for text in dict.fromkeys(texts):
        found = _checked(text)
        if isinstance(found, Failed):
            return found
        headers += [h for h in found[1] if h not in headers]
        parts.append(Text(found[0], text.line))
    parts.sort(key=lambda part: part.line or 0)
    head = "".join(f"#include <{name}>\n" for name in headers)
    whole = f'#include "{HEADER}"\n{head}namespace {NAMESPACE} {{'
    for part in parts:
        at = whole.count("\n") + 1
        whole += "\n" * max(1, (part.line or 0) - at) + part.text
    return f"{whole}\n}}\n"


def _checked(text: Text) -> tuple[str, list[str]] | Failed:
    """A text without headers and what its strings say, and the headers of CUDA that it needs."""
    headers = list[str]()

    def blank(found: re.Match[str]) -> str:
        name = found[1]
        if _PYTORCH.fullmatch(name) or name in _LIBRARY:
            return " " * len(found.group())
        headers.append(name)
        return f"#include <{name}>"

    source = _INCLUDE.sub(blank, text.text)
    if not has_assembler(source):
        source = _STRING.sub(_silent, source)
    problem = refused(source)
    reserved = _RESERVED.search(source)
    if problem is None and reserved is not None:
        log = f"names that begin with tw_ are tilewright's own: rename {reserved[0]}."
        problem = Failed("build", "compile_error", log, source.count("\n", 0, reserved.start()) + 1)
    if problem is not None:
        return located(problem, (text.line or 1) - 1 if text.line else None)
    return _INCLUDE.sub(lambda found: " " * len(found.group()), source), headers


def _silent(found: re.Match[str]) -> str:
    """A string without its text, which no kernel reads; comments and characters stay."""
    text = found.group()
    return '"' + " " * (len(text) - 2) + '"' if text[0] == '"' else text


def located(failed: Failed, shift: int | None = 0) -> Failed:
    """A failure of the CUDA text as one of the answer, whose lines are so many further down.

    None where its lines are not known.
    """
    line = None if failed.line is None or shift is None else failed.line + shift

    def moved(found: re.Match[str]) -> str:
        if shift is None:
            return ""
        return f"{PYTHON.file}{found[1]}{int(found[2]) + shift}"

    log = re.sub(r"\bkernel\.cu([:(])(\d+)", moved, failed.log)
    return Failed(failed.stage, failed.kind, log, line)


def _launcher(translation: Translation, form: Form, returned: list[Tensor]) -> str:
    """The function that makes tensors of arrays, does what `forward` does, and leaves outputs."""
    arrays = [Argument(f"tw_p_{a.name}", a.shape, a.dtype, a.role) for a in form.arguments]
    lines = ["  tw_torch::begin();"]
    if len(form.outputs) == 1:  # of several, which array becomes which output is not known yet
        lines += [f"  tw_torch::writes(tw_p_{a.name}, {_bytes(a)});" for a in form.outputs]
    for a in form.arguments:
        if a not in form.outputs:
            shape = ", ".join(f"{size}LL" for size in a.shape)
            lines.append(
                f"  at::Tensor tw_{a.name}((void *)tw_p_{a.name}, {{{shape}}}, "
                f"c10::ScalarType::{TYPES[a.dtype]});"
            )
    lines += [f"  {statement}" for statement in translation.statements]
    for tensor, a in zip(returned, form.outputs, strict=True):
        shape = ", ".join(f"{size}LL" for size in a.shape)
        lines.append(
            f"  tw_torch::leave({tensor.code}, tw_p_{a.name}, {{{shape}}}, "
            f"c10::ScalarType::{TYPES[a.dtype]});"
        )
    body = "\n".join([*lines, "  tw_torch::end();"])
    return f"void kernel({parameters(arrays, {})}) {{\n{body}\n}}\n"


def _bytes(argument: Argument) -> str:
    return " * ".join([*(f"{size}LL" for size in argument.shape),
                       f"c10::bytes_of(c10::ScalarType::{TYPES[argument.dtype]})"])  # fmt: skip
