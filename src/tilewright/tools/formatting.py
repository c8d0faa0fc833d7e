"""Formats numbers, names and rows for the tools' answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def number(value: float | None) -> str:
    """The number with separators, and with four digits if it is small and not a whole number."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"


def words(name: str) -> str:
    """A name of a cause, counter or kind of failure in words."""
    return name.replace("_", " ")


def phrase(counts: Mapping[str, float]) -> str:
    """Names with their counts: `cpu fetch 86, instructions 13`."""
    return ", ".join(f"{words(name)} {number(count)}" for name, count in counts.items())


def lines(*texts: str) -> str:
    """The texts that are not empty, one per line."""
    return "\n".join(text for text in texts if text)


def block(title: str, texts: Iterable[str]) -> list[str]:
    """Indented lines below a title; empty if there are no lines."""
    found = [f"  {text}" for text in texts if text.strip()]
    return [f"{title}:", *found] if found else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equally wide columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
