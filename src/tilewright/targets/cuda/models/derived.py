"""Writes answers with free parameters for a problem's file, if tilewright has kernels for its
model.

The model's operations are converted to a formula (`recognition.py`), and the formula to C
statements in one of the templates (`statements.py`). The answer is the problem's file with a new
`forward`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import Failed
from tilewright.core.templates import MACROS, concrete
from tilewright.parts.untrusted_python import UnparsableError, parsed
from tilewright.targets.cuda.models.answers import in_pytorch
from tilewright.targets.cuda.models.places import OtherError
from tilewright.targets.cuda.models.problem_file import Described
from tilewright.targets.cuda.models.readings import Array
from tilewright.targets.cuda.models.recognition import recognised
from tilewright.targets.cuda.models.statements import texts_of
from tilewright.targets.cuda.models.translation import translate
from tilewright.targets.cuda.occupancy import Architecture

_EXTENSION = '''\
from torch.utils.cpp_extension import load_inline

SOURCE = """
{text}"""

extension = load_inline(
    name="answer", cpp_sources="torch::Tensor answer({taken});", cuda_sources=SOURCE,
    functions=["answer"],
)

'''
_MOST = 1 << 31
"""Maximum number of elements, because the kernels count them with 32 bits."""


@dataclass(frozen=True)
class Derived:
    """Answers by a description, and a sentence that says what the model is, or why there are no
    answers."""

    templates: Mapping[str, str]
    words: str

    @property
    def first(self) -> str | None:
        """The first answer with the first values of its parameters."""
        found = next(iter(self.templates.values()), None)
        return None if found is None else concrete(found, MACROS)


def derive(full: Described, reduced: Described, architecture: Architecture, lowest: str) -> Derived:
    """Answers for a problem, or the reason why there are none."""
    try:
        kernels = recognised(full.graph, reduced.graph)
        if any(math.prod(one for one, _ in kernel.grid) >= _MOST for kernel in kernels):
            raise OtherError("it has more than 2^31 elements")
        arrays = [shape for kernel in kernels for shape in kernel.arrays.values()]
        if any(math.prod(one for one, _ in shape) >= 2 * _MOST for shape in arrays):
            raise OtherError("it reads an array of more than 2^32 elements")
        found = {
            name: _answer(full.problem.text, *made)
            for name, made in texts_of(kernels, architecture, lowest).items()
        }
        for text in found.values():
            for form in (full.form, reduced.form):
                translated = translate(concrete(text, MACROS), form)
                if isinstance(translated, Failed):
                    raise OtherError(f"its Python is not understood ({translated.log.rstrip('.')})")
    except OtherError as error:
        return Derived({}, f"none of tilewright's own kernels computes its Model: {error}.")
    return Derived(found, f"its Model is {', then '.join(k.words for k in kernels)}.")


def _unused(tree: ast.Module, model: ast.ClassDef) -> set[int]:
    """Lines that only the problem needs: its inputs, names that the model does not use, and the
    mode of the model, because kernels compute the same in both modes."""
    used = {n.id for n in ast.walk(model) if isinstance(n, ast.Name)}
    found = {
        node.lineno
        for node in ast.walk(model)
        if isinstance(node, ast.Expr) and ast.unparse(node) in ("self.eval()", "self.train()")
    }
    for node in tree.body:
        names = {t.id for t in node.targets if isinstance(t, ast.Name)} if isinstance(
            node, ast.Assign) else set[str]()  # fmt: skip
        of_problem = isinstance(node, ast.FunctionDef) and node.name in (
            "get_inputs", "get_init_inputs",
        )  # fmt: skip
        if of_problem or (names and not names & used):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def _in_python(name: str) -> str:
    """An array of the model as Python writes it: `self.net[0].weight` for `self.net.0.weight`."""
    found = ""
    for part in name.split("."):
        if part.isdecimal():
            found += f"[{part}]"
        elif part.isidentifier():
            found += f".{part}"
        else:
            raise OtherError(f"its array {name[:60]} has no name that Python could use")
    return found.removeprefix(".")


def _answer(problem: str, text: str, arrays: Sequence[Array]) -> str:
    """The problem's file with a new `forward` that passes arrays to the text's function.

    The text is inserted before the model.
    """
    try:
        tree = parsed(problem, "problem.py")
    except (SyntaxError, UnparsableError):
        raise OtherError("its file is not plain Python") from None
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
    forwards = [
        n for c in found for n in c.body if isinstance(n, ast.FunctionDef) and n.name == "forward"
    ]
    if len(found) != 1 or len(forwards) != 1:
        raise OtherError("its file defines Model or forward in an unusual way")
    forward, lines = forwards[0], problem.split("\n")
    names = [a.arg for a in forward.args.args[1:]]
    given = list[str]()
    for array in arrays:
        if array.name.startswith("input "):
            place = int(array.name.removeprefix("input "))
            if place >= len(names):
                raise OtherError("its forward does not name its arguments")
            given.append(names[place])
        else:
            given.append(_in_python(array.name))
    indent = " " * forward.col_offset
    own = [f"{indent}def forward({ast.unparse(forward.args)}):",
           f"{indent}    return extension.answer({', '.join(given)})"]  # fmt: skip
    after = forward.end_lineno or 0
    start = forward.lineno - 1
    taken = ", ".join("torch::Tensor" for _ in given)
    kernel = _EXTENSION.format(text=text, taken=taken).split("\n")
    at = found[0].lineno - 1
    unused = _unused(tree, found[0])

    def kept(first: int, end: int) -> list[str]:
        return [line for n, line in enumerate(lines[first:end], first + 1) if n not in unused]

    whole = [*kept(0, at), *kernel, *kept(at, start), *own, *kept(after, len(lines))]
    return in_pytorch("\n".join(whole).rstrip("\n") + "\n")
