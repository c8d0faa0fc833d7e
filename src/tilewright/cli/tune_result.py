"""Prints the result of `tilewright tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from tilewright.cli.tune_progress import TuneProgress
    from tilewright.tuner.tvm.runner import Measurement
    from tilewright.tuning.runs import TuneResult


def show_result(result: TuneResult, progress: TuneProgress, folder: Path) -> None:
    """Print the result as a table, and the folder that contains it."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.tuning.winner import NoWinner, failures

    table = Table(box=None, show_header=False, pad_edge=False)
    ledger, count = result.ledger, len(result.trials)
    failed = ", ".join(f"{n} {kind}" for kind, n in failures(result.trials).items())
    table.add_row("trials", f"{count}, of which {result.measured} measured now")
    if failed:
        table.add_row("failed", failed)
    if not result.trials:
        table.add_row("best", "none: no candidate was measured yet")
    elif result.winner is None:
        table.add_row("best", f"none: every candidate failed ({result.trials[0].measurement.log})")
    elif isinstance(result.winner, NoWinner):
        table.add_row(
            "best", "none: each of the best kernels failed when it was measured again. To try"
        )
        table.add_row(
            "", "again, repeat the command. To continue the search, give a larger --budget"
        )
        _show_failed(table, result.winner.failed)
    else:
        winner = result.winner
        spread = (max(winner.samples) - min(winner.samples)) / winner.seconds
        table.add_row("best", f"{winner.seconds * 1e3:.4f} ms, {progress.rate(winner.seconds)}")
        table.add_row("", f"measured again in {len(winner.samples)} rounds, range {spread:.0%}")
        if winner.found_by is not None:
            table.add_row(
                "", f"found by the earlier run {winner.found_by}; no trial of this run is faster"
            )
        _show_failed(table, winner.failed)
        if winner.reference is not None:
            against = winner.reference
            table.add_row(
                str(winner.reference_name),
                f"{against.baseline_s * 1e3:.4f} ms; the kernel is {against.ratio:.2f}x as fast "
                f"(interval {against.low:.2f} to {against.high:.2f})",
            )
    for name, field in (("library", "no_library"), ("baseline", "no_baseline")):
        if missing := result.facts.get(field):
            table.add_row(name, str(missing))
    if result.measured:
        table.add_row(
            "time",
            f"{ledger.wall_s:.1f} s: {ledger.measure_s:.1f} measuring, {ledger.build_s:.1f} "
            f"waiting for builds, {ledger.search_s:.1f} searching, {ledger.replay_s:.1f} replaying",
        )
    if result.files:
        table.add_row("results", f"{folder}/ (run it: python {folder}/run.py)")
    results().print(table)


def _show_failed(table: Table, failed: Mapping[str, Measurement]) -> None:
    """Say which finalists failed when they were measured again, and how."""
    for name, failure in failed.items():
        said = f"{failure.failure} when measured again ({failure.log})"
        table.add_row("left out", f"{name}: {said}")
