"""Translates an answer to a kernel of the target `cuda`: its CUDA texts, and a launcher that calls
them.

    answer: CUDA texts, `forward`      kernel.cu: namespace tw_answer { texts }
                                                  void kernel(arrays) { what forward calls }

Line numbers do not change if each of the answer's texts is a single literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tilewright.core.records import Argument, Failed
from tilewright.parts.languages import PYTHON
from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.messages import without_text
from tilewright.targets.cuda.models.answer import (
    Answer,
    Extension,
    Text,
    read_answer,
)
from tilewright.targets.cuda.models.answer_arguments import Form
from tilewright.targets.cuda.models.answer_values import TYPES, Tensor
from tilewright.targets.cuda.models.forward import NAMESPACE, Translation
from tilewright.targets.cuda.models.not_checked import NotReadError, WrongError
from tilewright.targets.cuda.source import HEADERS, refused

HEADER = "tilewright_tensors.h"
"""The replacement for PyTorch's headers, by the name under which compilers find it."""
_PYTORCH = re.compile(r"(?:torch|ATen|c10)/[\w/]+\.h")
_LIBRARY = frozenset({
    "vector", "algorithm", "iostream", "cstdio", "stdio.h", "cstdlib", "stdlib.h", "string",
    "tuple", "utility", "cassert", "assert.h", "limits", "functional", "memory", "array", "numeric",
    "stdexcept", "exception", "pybind11/pybind11.h",
})  # fmt: skip
"""Headers that answers often include but do not use. Code that uses their contents does not
compile."""
_INCLUDED = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:<([^>"]*)>|"([^>"]*)")[ \t]*')
_DIRECTIVE = re.compile(r"^[ \t\f\v]*(?:#|%:)[ \t\f\v]*include.*", re.MULTILINE)
_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<open>["'])(?:\\[^\n]|(?!(?P=open))[^\\\n])*(?P<end>(?P=open))?""",
    re.DOTALL,
)
_MESSAGE = re.compile(r"\b(TORCH_CHECK|TORCH_INTERNAL_ASSERT|AT_ASSERTM|AT_ASSERT)\s{0,99}\(")
"""Functions that take messages as arguments and have no effect. The first operand is not a
message."""
_DEFINED = re.compile(
    r"^[ \t\f\v]*(?:#|%:)[ \t\f\v]*(?:define|undef)[ \t\f\v]+(\w+)(.*)", re.MULTILINE
)
_WORD = re.compile(r"\w+")
_MODULE = re.compile(
    r"\bPYBIND11_MODULE\s{0,9}\(\s{0,9}\w{1,99}\s{0,9},\s{0,9}(\w{1,99})\s{0,9}\)\s{0,99}\{([^}]*)\}"
)
_DEFINES = re.compile(
    r'\.\s{0,9}def\s{0,9}\(\s{0,99}"(\w{1,99})"\s{0,9},\s{0,99}&?\s{0,9}(\w{1,99})\s{0,99}[,)]'
)
"""The name of a function in Python, and the C++ function that it calls."""
_HELP = re.compile(
    r'(\.\s{0,9}def\s{0,9}\(\s{0,99}"\w{1,99}"\s{0,9},\s{0,99}&?\s{0,9}\w{1,99}\s{0,99},\s{0,99})'
    r'("(?:\\[^\n]|[^"\\\n])*")'
)
_RESERVED = re.compile(r"\btw_\w+")


def translate(source: str, form: Form) -> str | Failed:
    """The kernel of an answer, or the reason why there is none."""
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
        raise NotReadError("it passes no CUDA source to load_inline", None)
    texts = _joined(answer.extensions.values())
    if isinstance(texts, Failed):
        return texts
    return texts + _launcher(translation, form, returned)


def _given(argument: Argument) -> Tensor:
    return Tensor(f"tw_{argument.name}", argument.shape, argument.dtype)


def _joined(extensions: Iterable[Extension]) -> str | Failed:
    """All texts as one, each on separate lines in a namespace. Headers come first."""
    texts = [text for e in extensions for text in e.texts]
    headers, parts = list[str](), list[Text]()
    for text in dict.fromkeys(texts):
        found = _checked(text)
        if isinstance(found, Failed):
            return found
        headers += [h for h in found[1] if h not in headers]
        parts.append(Text(found[0], text.line))
    _apart(parts)
    parts.sort(key=lambda part: part.line or 0)
    head = "".join(f"#include <{name}>\n" for name in headers)
    whole = f'#include "{HEADER}"\n{head}namespace {NAMESPACE} {{ namespace std = tw_std;'
    for part in parts:
        at = whole.count("\n") + 1
        whole += "\n" * max(1, (part.line or 0) - at) + part.text
    return f"{whole}\n}}\n"


def _checked(text: Text) -> tuple[str, list[str]] | Failed:
    """A text as a compiler reads it, without headers and messages, and the headers that it needs.

    The text that is checked is the one that is compiled, and PyTorch would compile it with the same
    meaning. A text that could be read in two ways is not checked.
    """
    shift = text.line - 1 if text.line else None
    headers = list[str]()

    def not_read(reason: str, line: int) -> NotReadError:
        return NotReadError(reason, None if shift is None else line + shift)

    def blank(found: re.Match[str]) -> str:
        said = _INCLUDED.fullmatch(found.group())
        name = (said[1] or said[2] or "") if said else found.group().strip()
        if said is not None and name in HEADERS:
            headers.append(name)
        elif said is None or not (_PYTORCH.fullmatch(name) or name in _LIBRARY):
            raise not_read(
                f"it includes {name[:80]}, which is neither PyTorch's nor one of the headers that "
                "kernels may include", source.count("\n", 0, found.start()) + 1,
            )  # fmt: skip
        return " " * len(found.group())

    source = _without_comments(text.text, not_read)
    _require_own_names(source, not_read)
    source = _MODULE.sub(_without_help, _DIRECTIVE.sub(blank, source))
    source = _without_messages(source)
    problem = refused(source)
    if problem is not None:
        reason = re.sub(r"\A\S+:\d+: ", "", problem.log).rstrip(".")
        raise not_read(reason, problem.line or 1)
    reserved = _RESERVED.search(source)
    if reserved is not None:
        log = f"names that begin with tw_ are tilewright's own: rename {reserved[0]}."
        line = source.count("\n", 0, reserved.start()) + 1
        return located(Failed("build", "compile_error", log, line), shift)
    return source, headers


def _require_own_names(source: str, not_read: Callable[[str, int], NotReadError]) -> None:
    """If a text defines its own Python module, it must export each function under its own name."""
    for mention in re.finditer(r"\bPYBIND11_MODULE\b", source):
        line = source.count("\n", 0, mention.start()) + 1
        module = _MODULE.match(source, mention.start())
        body = module[2] if module else ""
        named = _DEFINES.findall(body)
        counted = len(re.findall(r"\bdef\b", body))
        if not named or len(named) != counted or any(name != own for name, own in named):
            raise not_read("PYBIND11_MODULE exports a function under another name", line)


def _without_comments(text: str, not_read: Callable[[str, int], NotReadError]) -> str:
    """The text with continued lines joined and comments replaced by spaces. Lines keep their
    numbers."""
    lines, waiting = list[str](), list[str]()
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        bare = line.rstrip(" \t\f\v\r")
        if bare.endswith("\\") and (bare != line or "//" in line):
            raise not_read("compilers disagree on a backslash that is followed by a space or "
                           "ends a // comment", number)  # fmt: skip
        waiting.append(line.removesuffix("\\"))
        if bare.endswith("\\"):
            continue
        lines += ["".join(waiting), *[""] * (len(waiting) - 1)]
        waiting.clear()
    joined = "\n".join([*lines, *waiting])
    parts, done, owed, at = list[str](), 0, 0, 1
    for token in _TOKENS.finditer(joined):
        found, before = token.group(), joined[done : token.start()]
        at += before.count("\n")
        if owed and "\n" in before:  # a comment of several lines ends on the line on which it began
            before = before.replace("\n", "\n" * (owed + 1), 1)
            owed = 0
        done = token.end()
        ahead = joined[max(0, token.start() - 1) : token.start()]
        if token["open"] and (not token["end"] or (found[0] == "'" and _WORD.match(ahead))):
            raise not_read("a quote is not closed, or follows a letter or digit", at)
        if found[0] == '"' and ahead == "R":
            raise not_read("it contains a raw string", at)
        owed += 0 if token["open"] else found.count("\n")
        at += found.count("\n")
        parts += [before, found if token["open"] else " "]
    rest = joined[done:]
    if owed:
        rest = rest.replace("\n", "\n" * (owed + 1), 1)
    return "".join([*parts, rest])


def _without_messages(source: str) -> str:
    """The source without the messages of failed conditions, which kernels do not read.

    Other strings are unchanged.
    """
    code = without_text(source)
    own = set[str]()
    for name, rest in _DEFINED.findall(code):
        own |= {name, *_WORD.findall(rest.partition(")")[0] if rest[:1] == "(" else "")}
    parts, done = list[str](), 0
    for found in _MESSAGE.finditer(code):
        if found.start() < done or found[1] in own:
            continue
        depth, first, end = 1, 0, found.end()
        while end < len(code) and depth:
            depth += (code[end] in "([{") - (code[end] in ")]}")
            if not first and depth == 1 and code[end] == ",":
                first = end
            end += 1
        begin = code.rfind("\n", 0, found.start()) + 1
        held = code[begin:end].split("\n")
        if len(held) > 1 and any(line.lstrip().startswith(("#", "%:")) for line in held):
            continue
        start = first or end
        message = _TOKENS.sub(_silent, source[start:end]).replace("#", " ")
        parts += [source[done:start], message]
        done = end
    return "".join([*parts, source[done:]])


def _without_help(module: re.Match[str]) -> str:
    """Removes the descriptions of functions in a module that a text defines. Python shows them as
    help."""
    return _HELP.sub(lambda m: m[1] + '"' + " " * (len(m[2]) - 2) + '"', module[0])


def _silent(found: re.Match[str]) -> str:
    """A string literal with its text removed. Character literals are unchanged."""
    text = found.group()
    return '"' + " " * (len(text) - 2) + '"' if text[0] == '"' else text


def _apart(texts: Iterable[Text]) -> None:
    """PyTorch compiles the texts separately. When they are joined, macros must not affect another
    text.

    Raises `NotReadError`.
    """
    different = list({text.text: text for text in texts}.values())
    macros = [dict(_DEFINED.findall(text.text)) for text in different]
    words = [set(_WORD.findall(text.text)) for text in different]
    for i, own in enumerate(macros):
        for j, other in enumerate(macros):
            shared = [n for n in own if n in words[j] and other.get(n) != own[n]] if i != j else []
            if shared:
                raise NotReadError(
                    f"{shared[0]} is a macro in one of its sources and something else in another",
                    None,
                )


def located(failed: Failed, shift: int | None = 0) -> Failed:
    """A failure in the CUDA text as a failure in the answer, whose lines are offset by a number.

    None if its lines are not known.
    """
    line = None if failed.line is None or shift is None else failed.line + shift

    def moved(found: re.Match[str]) -> str:
        if shift is None:
            return ""
        return f"{PYTHON.file}{found[1]}{int(found[2]) + shift}"

    log = re.sub(r"\bkernel\.cu([:(])(\d+)", moved, failed.log)
    return Failed(failed.stage, failed.kind, log, line)


def _launcher(translation: Translation, form: Form, returned: list[Tensor]) -> str:
    """The function that creates tensors from arrays, makes the calls of `forward`, and stores the
    outputs."""
    arrays = [Argument(f"tw_p_{a.name}", a.shape, a.dtype, a.role) for a in form.arguments]
    lines = ["  tw_torch::begin();"]
    if (
        len(form.outputs) == 1
    ):  # if there are several outputs, it is not known yet which array is which
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
