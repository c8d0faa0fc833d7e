"""An extension of griffe that shows the doctests of docstrings as code, not as quotations."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """The text with each doctest in a fenced block.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    Adds.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```python\n{p}\n```" if p.lstrip().startswith(">>> ") else p for p in paragraphs
    )


class FencedDoctests(griffe.Extension):
    """Changes the docstring of every object that the site describes."""

    def on_object(self, *, obj: griffe.Object, **given: Any) -> None:
        """Called once for each object after its module was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
