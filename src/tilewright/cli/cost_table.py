"""What a run's calls to models cost, as a table and a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tilewright.report.costs import Cost, costs, total, usd_per_doubling
from tilewright.report.text import number, ratio

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.core.records import CallRecord


def cost_lines(calls: Sequence[CallRecord], speedup: float | None) -> Iterator[RenderableType]:
    """Nothing without calls; else a row per model and phase, and what the speed-up cost."""
    if not calls:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("phase")
    for heading in ("calls", "unused", "input", "cached", "output", "reasoning", "USD"):
        table.add_column(heading, justify="right")
    rows = costs(calls)
    for row in rows:
        table.add_row(*_cells(row))
    everything = total(calls, "all")
    if len(rows) > 1:
        table.add_row(*_cells(everything), style="bold")
    yield table
    yield Text(cost_sentence(everything, speedup))
    yield ""


def cost_sentence(cost: Cost, speedup: float | None) -> str:
    """Calls, tokens and dollars; what is unknown is said to be."""
    unknown = not cost.tokens and cost.calls > cost.cached_calls
    tokens = "tokens unknown" if unknown else f"{number(cost.tokens)} tokens"
    parts = [f"{cost.calls} calls to models, {tokens}, {dollars(cost)}"]
    if cost.cached_calls:
        parts.append(f"{cost.cached_calls} answered from earlier runs")
    if cost.failed:
        parts.append(f"{cost.failed} failed")
    if cost.under_way:
        parts.append(
            f"{cost.under_way} under way when it stopped, at most {cost.under_way_usd:.4f} USD"
        )
    if cost.served_by:
        parts.append(f"answered by {', '.join(cost.served_by)}")
    price = usd_per_doubling(cost, speedup)
    if price is not None and speedup is not None:
        parts.append(f"{price:.4g} USD per doubling of speed ({ratio(speedup)})")
    return "; ".join(parts)


def dollars(cost: Cost) -> str:
    """Known dollars, and how many calls have no known price."""
    if cost.unpriced == cost.calls - cost.cached_calls and cost.unpriced:
        return "price unknown"
    known = f"{cost.usd:.4f} USD"
    return f"{known} and {cost.unpriced} calls of unknown price" if cost.unpriced else known


def _cells(row: Cost) -> tuple[str, ...]:
    usd = "unknown" if row.unpriced and not row.usd else f"{row.usd:.4f}"
    return (
        row.model,
        row.phase,
        str(row.calls),
        str(row.unused),
        number(row.input_tokens),
        number(row.cached_tokens),
        number(row.output_tokens),
        number(row.reasoning_tokens),
        f"{usd}+" if row.unpriced and row.usd else usd,
    )
