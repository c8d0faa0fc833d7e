"""The cost of a run's calls to models, as a table for each model and a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tilewright.report.costs import Cost, cost_rows, cost_sentence, total, usd_text
from tilewright.report.text import number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.core.records import CallRecord

HEADINGS = ("phase", "calls", "unused", "input", "cached", "output", "reasoning", "USD")


def cost_lines(calls: Sequence[CallRecord], speedup: float | None) -> Iterator[RenderableType]:
    """The calls of each model by phase, their sum, and the cost of the speedup.

    The name of a model has a line of its own, because names that contain a folder, a program or an
    address are longer than a column. Empty if there were no calls.
    """
    if not calls:
        return
    rows = cost_rows(calls)
    cells = [HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, group in groupby(rows, key=lambda row: row.model if row.phase else "all models"):
        yield Text(name)
        yield _table(widths, group)
    yield Text(cost_sentence(total(calls), speedup))
    yield ""


def _table(widths: Sequence[int], rows: Iterable[Cost]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(HEADINGS[0], min_width=widths[0])
    for heading, width in zip(HEADINGS[1:], widths[1:], strict=True):
        table.add_column(heading, justify="right", min_width=width)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Cost) -> tuple[str, ...]:
    return (
        row.phase or "all",
        str(row.calls),
        str(row.unused),
        number(row.input_tokens),
        number(row.cached_tokens),
        number(row.output_tokens),
        number(row.reasoning_tokens),
        usd_text(row),
    )
