"""Expands the names that a file gives to array types, such as `typedef float mat4[4][4];`.

Each use of such a name is replaced, so that the parsers need to support only one form: `const mat4
a` becomes `const float a[4][4]`, `mat4 t[9]` becomes `float t[9][4][4]`, and `mat4 *p` becomes
`float (*p)[4][4]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SIZES = r"(?:\s*\[[^\[\]]*\])"
_TYPEDEF = re.compile(rf"\s*typedef\s+((?:\w+\s+)+?)(\w+)({_SIZES}+)\s*;\s*")
_QUALIFIERS = r"((?:(?:const|restrict|volatile)\s+)*)"
_NAME = rf"[A-Za-z_]\w*{_SIZES}*"
_VALUES = r"\{(?:[^{};]|\{[^{};]*\})*\}"
_LAST = rf"(?=\s*(?:;|\)|,\s*(?:\w+\s+[\w*]|\w+\*)|=\s*(?:{_VALUES}|[^,;{{}}]*)\s*;))"
"""The text after a parameter, or after the only variable of a declaration. Other variables in the
same declaration would get another type."""
_POINTER = rf"\*\s*{_QUALIFIERS}(?:([A-Za-z_]\w*)(?!\w){_LAST}|(?=[),]))"


@dataclass
class ArrayTypes:
    """The names defined so far, each with the type of an element and the sizes."""

    defined: dict[str, tuple[str, str]] = field(default_factory=dict)

    def define(self, line: str) -> bool:
        """Store a definition that is alone on its line. Returns whether the line is such a
        definition.
        """
        found = _TYPEDEF.fullmatch(line)
        if found is None or "struct" in found[1].split():
            return False
        *qualifiers, element = found[1].split()
        element, inner = self.defined.get(element, (element, ""))
        self.defined[found[2]] = (" ".join((*qualifiers, element)), found[3] + inner)
        return True

    def expanded(self, text: str) -> str:
        """The text in which every use of the names is replaced."""
        for name, (element, sizes) in self.defined.items():
            if name in text:
                text = _written_out(text, name, element, sizes)
        return text


def _written_out(text: str, name: str, element: str, sizes: str) -> str:
    several = re.compile(rf"\b{name}\s+{_QUALIFIERS}({_NAME}(?:\s*,\s*{_NAME})+)\s*;")
    text = several.sub(
        lambda m: f"{element} {m[1]}{re.sub(_NAME, lambda n: n[0] + sizes, m[2])};", text
    )
    pointer = re.compile(rf"\b{name}(?:\s+{_QUALIFIERS}|\s*){_POINTER}")
    text = pointer.sub(lambda m: f"{m[1] or ''}{element} (*{m[2]}{m[3] or ''}){sizes}", text)
    single = re.compile(rf"\b{name}\s+{_QUALIFIERS}({_NAME})(?![\w\[]){_LAST}")
    text = single.sub(lambda m: f"{m[1]}{element} {m[2]}{sizes}", text)
    return re.sub(rf"\b{name}(?=\s*\))", lambda m: element + sizes, text)
