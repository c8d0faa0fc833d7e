"""Numbers, names and rows as the tools write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def number(value: float | None) -> str:
    """With separators; four digits where it is small and not whole."""
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
    """Those that say something, below each other."""
    return "\n".join(text for text in texts if text)


def block(title: str, texts: Iterable[str]) -> list[str]:
    """Indented lines below their title; nothing where there are none."""
    found = [f"  {text}" for text in texts if text.strip()]
    return [f"{title}:", *found] if found else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equally wide columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
