"""Parses untrusted Python in bounded time and memory, without running any of it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from tilewright.parts.source_rules import MAX_SOURCE_BYTES, hidden_character


class UnparsableError(Exception):
    """A text that Python's parser cannot process, or with a character that readers do not see. The
    cause is the exception of the parser, if there is one.
    """


class TooLongError(UnparsableError):
    """A text of more bytes than a kernel may have."""


def parsed(source: str, file: str) -> ast.Module:
    """The syntax tree of a file's text. Warnings of the parser are not printed.

    Raises `SyntaxError` if the text is not Python, `TooLongError` and `UnparsableError`.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        raise TooLongError(f"the source is longer than {MAX_SOURCE_BYTES >> 10} KiB")
    hidden = hidden_character(source)
    if hidden is not None:
        raise UnparsableError(f"line {hidden[1]}: {hidden[0]}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, file)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnparsableError(f"the file cannot be parsed ({type(error).__name__})") from error


def with_depths(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """All nodes with their depths. There is no recursion, because trees may be of any depth."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
