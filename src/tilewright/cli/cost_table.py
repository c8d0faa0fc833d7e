"""The cost of a run's calls to models, as a table and a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tilewright.report.costs import Cost, cost_rows, cost_sentence, total, usd_text
from tilewright.report.text import number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.core.records import CallRecord


def cost_lines(calls: Sequence[CallRecord], speedup: float | None) -> Iterator[RenderableType]:
    """A row for each model and phase, and the cost of the speedup; empty if there were no calls."""
    if not calls:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("phase")
    for heading in ("calls", "unused", "input", "cached", "output", "reasoning", "USD"):
        table.add_column(heading, justify="right")
    for row in cost_rows(calls):
        table.add_row(*_cells(row), style=None if row.phase else "bold")
    yield table
    yield Text(cost_sentence(total(calls), speedup))
    yield ""


def _cells(row: Cost) -> tuple[str, ...]:
    return (
        row.model,
        row.phase,
        str(row.calls),
        str(row.unused),
        number(row.input_tokens),
        number(row.cached_tokens),
        number(row.output_tokens),
        number(row.reasoning_tokens),
        usd_text(row),
    )
