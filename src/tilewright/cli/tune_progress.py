"""Shows the progress of a tuning run: a panel on a terminal, and elsewhere a line for each new best
kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tilewright.cli.live import LivePanel

if TYPE_CHECKING:
    from tilewright.core.tuning_records import TuningRecord
    from tilewright.tuner.tvm.trials import Trial

_LINES_EVERY_S = 20.0
_BAR_WIDTH = 28


class TuneProgress(LivePanel):
    """Context manager; `started` and `measured` are the callbacks of a tuning run."""

    def __init__(
        self, trials: int, flops: int, peak_gflops: float, console: Console | None = None
    ) -> None:
        """`peak_gflops` is 0 if it is not known."""
        self._trials, self._flops, self._peak = trials, flops, peak_gflops
        self._done = self._failed = 0
        self._best: float | None = None
        self._last: Trial | None = None
        self._said = time.monotonic()
        super().__init__(console)

    def started(self, record: TuningRecord, kept: int) -> None:
        """Print the id of the run, and the number of trials with which it continues."""
        again = f", continues after {kept} trials" if kept else ""
        starts = f", {len(record.starts)} known tiles to start from" if record.starts else ""
        taught = _taught(record.settings.get("learned_from"))
        self._say(f"run {record.id}: {record.workload}{again}{starts}{taught}")

    def measured(self, trial: Trial) -> None:
        """Update the state with one trial."""
        self._done += 1
        self._last = trial
        seconds = trial.seconds
        self._failed += seconds is None
        better = seconds is not None and (self._best is None or seconds < self._best)
        if better:
            self._best = seconds
        due = time.monotonic() - self._said > _LINES_EVERY_S
        if self._live is None and (better or due or self._done == self._trials):
            self._said = time.monotonic()
            self._say(self._line())

    def rate(self, seconds: float | None) -> str:
        """Convert a time to a throughput, with its share of the peak if the peak is known."""
        if seconds is None:
            return "-"
        gflops = self._flops / seconds / 1e9
        text = f"{gflops / 1e3:.2f} TFLOP/s" if gflops >= 1e4 else f"{gflops:.1f} GFLOP/s"
        return f"{text} ({gflops / self._peak:.0%} of peak)" if self._peak else text

    def panel(self) -> Group:
        """The content of the panel on a terminal."""
        table = Table.grid(padding=(0, 2))
        table.add_row("trials", f"{self._done} of {self._trials}, {self._failed} failed")
        table.add_row("best", self.rate(self._best))
        if self._last is not None:
            table.add_row("last", f"{self.rate(self._last.seconds)}{self._predicted()}")
        bar = ProgressBar(total=self._trials, completed=self._done, width=_BAR_WIDTH)
        return Group(
            bar, table, Text("Ctrl-C ends the search and keeps the best kernel", style="dim")
        )

    def _line(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"{self._done}/{self._trials} trials{failed}: best {self.rate(self._best)}"
            f"{self._predicted()}"
        )

    def _predicted(self) -> str:
        """Predicted against measured throughput of the last trial, both relative to the best."""
        trial = self._last
        if trial is None or not trial.predicted or trial.seconds is None or self._best is None:
            return ""
        return f"; last predicted {trial.predicted:.2f}, measured {self._best / trial.seconds:.2f}"

    def _say(self, line: str) -> None:
        if self._live is None:
            self._console.print(line, markup=False, soft_wrap=True)


def _taught(runs: object) -> str:
    """A sentence on the earlier runs that the cost model was trained on, from the number of trials
    of each run.
    """
    if not isinstance(runs, dict) or not runs:
        return ""
    number = "1 earlier run" if len(runs) == 1 else f"{len(runs)} earlier runs"
    return f", a cost model that learned from {sum(runs.values())} trials of {number}"
