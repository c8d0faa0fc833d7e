"""The table of a comparison as text."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.text import counted
from tilewright.tuning.comparison_table import NONE_YET, Row, Run, latest

HEAD = (
    *("arm", "trials", "workloads", "speedup", "range", "library", "to 95 %", "after", "varies"),
    *("s/trial", "overhead"),
)


def cells(row: Row) -> tuple[str, ...]:
    """The entries of a row in the order of `HEAD`; "-" for unknown values."""
    some = row.compared if row.compared == row.workloads else f"{row.compared} of {row.workloads}"
    return (
        row.arm,
        str(row.trials) if row.after_s is None else f"{row.trials} in {row.after_s:g} s",
        str(some),
        _number(row.speedup),
        "-" if row.low is None else f"{row.low:.2f}-{row.high:.2f}",
        _number(row.against_reference),
        f"{row.reached} of {row.groups}",
        "-"
        if row.trials_to_near is None
        else f"{row.trials_to_near:.0f} trials, {row.seconds_to_near:.0f} s",
        "-" if row.variability is None else f"{row.variability:.1%}",
        f"{row.seconds_per_trial:.2f}",
        f"{row.overhead:.0%}",
    )


def caption(rows: Sequence[Row]) -> str:
    """An explanation of the numbers, with the number of seeds and the load of the machine."""
    if not rows:
        return "No finished run has a kernel yet."
    arms = [row.arm for row in rows]
    baseline = "default" if "default" in arms else arms[0]
    kinds = sorted({row.kind for row in rows})
    seeds = _range([n for row in rows for n in (row.fewest_seeds, row.seeds)], "d")
    loads = _range([load for row in rows for load in (row.lowest_load, row.highest_load)], ".1f")
    return (
        f"{'; '.join(kinds).capitalize()}. Speedup over {baseline} after all its trials: the "
        f"median over {seeds} seeds for each workload, and the geometric mean of these medians "
        "over the workloads of the row. The kernels were timed again alternately. Library: "
        "speedup over BLAS, cuBLAS or cuDNN, if they provide the same operation. To 95 %: number "
        "of runs that came within 95 % of the best result of any arm. "
        f"Load average: {loads}."
    )


def left_out(runs: Sequence[Run]) -> list[str]:
    """A sentence for each run and checkpoint that has no kernel in the table, with the reason."""
    told = []
    for run in latest(runs):
        for checkpoint, reason in run.get("unconfirmed", {}).items():
            by_time = checkpoint.endswith(" s")
            amount = checkpoint if by_time else counted(int(checkpoint), "trial")
            again = f"the best one failed when it was measured again ({reason})"
            name = f"{run['workload']} seed {run['seed']} {run['arm']}"
            why = reason if reason == NONE_YET else again
            told.append(f"{name} has no kernel after {amount}: {why}.")
    return told


def as_text(rows: Sequence[Row]) -> str:
    """The table and its caption as plain text."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*padded, caption(rows), ""])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _range(values: Sequence[float], form: str) -> str:
    """The smallest and the largest value, or the one that both are."""
    return " to ".join(dict.fromkeys(format(end(values), form) for end in (min, max)))
