"""A run of a project, which is read from the project's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.api.html import run_html
from tilewright.api.task import require_kernel
from tilewright.core.errors import ConfigurationError
from tilewright.core.records import Candidate, History, Trial
from tilewright.core.roles import Storage
from tilewright.report.text import gain
from tilewright.run import open_project
from tilewright.run_metadata import summary_of
from tilewright.search.event_records import trial_record
from tilewright.search.stepwise import Stepwise
from tilewright.search.summary import Summary
from tilewright.tools.records import Answer
from tilewright.workbench import Workbench

if TYPE_CHECKING:
    import pandas


class Run:
    """One run: its trials, its best kernel, and the kernels with which it is compared.

    Each attribute is read from the project when it is used, and therefore shows the present state
    of a run that another process continues. Notebooks display a `Run` as a table.

    >>> import tilewright as tw
    >>> run = tw.open_run("latest")
    >>> run.history[0].candidate.proposer
    'start'
    >>> run.best.latency <= run.history[0].latency
    True
    >>> run.summary.quantity
    'simulated'
    """

    def __init__(self, run: str, project: Path) -> None:
        self.project = project
        with self._opened() as storage:
            self.id = storage.run(run).id

    @property
    def summary(self) -> Summary:
        """The results of the run, the versions that produced them, and the status of the run."""
        with self._opened() as storage:
            return summary_of(storage, self.id)

    @property
    def history(self) -> History:
        """All trials in order; the first one is the starting kernel."""
        with self._opened() as storage:
            return storage.history(self.id)

    @property
    def best(self) -> Trial | None:
        """The trial of the fastest correct kernel, or None if none was measured yet."""
        return self.history.best

    def to_dataframe(self) -> pandas.DataFrame:
        """A table with one row for each trial, with the fields of an `Evaluated` event.

        Raises `ConfigurationError` if pandas is not installed.

        >>> import tilewright as tw
        >>> run = tw.open_run("latest")
        >>> list(run.to_dataframe()["trial"])[:2]
        [0, 1]
        """
        try:
            import pandas
        except ImportError:
            raise ConfigurationError(
                "to_dataframe() needs the Python package pandas. Install it with `pip install "
                '"tilewright[pandas]"`.'
            ) from None
        return pandas.DataFrame([trial_record(trial) for trial in self.history])

    def __repr__(self) -> str:
        summary = self.summary
        reached = f", {gain(summary.speedup, summary.noise)}" if summary.speedup else ""
        return f"<Run {self.id} of {summary.workload}: {summary.status}{reached}>"

    def _repr_html_(self) -> str:
        return run_html(self.summary, self.history)

    @contextmanager
    def _opened(self) -> Iterator[Storage]:
        with closing(open_project(self.project)) as storage:
            yield storage


class OpenRun(Run):
    """A run that your own loop controls: `ask` returns candidates, and `tell` evaluates kernels.

    Call both methods from the same thread.

    >>> import tilewright as tw
    >>> with tw.begin("gemmini:gemm-16x16x16", budget="3 evaluations") as run:
    ...     start = run.history[0].candidate.source
    ...     trial = run.tell(start.replace("{", "{  // my own version", 1), note="a comment")
    ...     while (candidate := run.ask()) is not None:
    ...         trial = run.tell(candidate)
    >>> len(run.history), run.over
    (3, 'the budget of 3 evaluations is spent')
    """

    def __init__(self, run: str, project: Path, bench: Workbench, steps: Stepwise) -> None:
        super().__init__(run, project)
        self._bench = bench
        self._steps = steps

    @property
    def history(self) -> History:
        """All trials in order; the first one is the starting kernel."""
        return self._steps.history

    @property
    def over(self) -> str:
        """The reason why no further kernel is evaluated; "" if the budget is not spent."""
        return self._steps.over

    def ask(self) -> Candidate | None:
        """The next candidate of the run's proposers, or None when a search would end.

        The candidate is not evaluated yet. The candidates of an iteration are made from the kernels
        that were best when the iteration began. After the last of them, the next iteration begins,
        which takes all trials so far into account.
        """
        return self._steps.ask()

    def tell(self, kernel: str | Candidate, *, parent: str | None = None, note: str = "") -> Trial:
        """Build, check and time a kernel, and record it as a trial of the run.

        For a kernel that the run has already evaluated, `tell` returns the earlier trial and uses
        no budget. `parent` is the candidate id of the kernel that you changed, by default that of
        the best kernel. `note` describes the change. Raises `InputError` if the budget is spent, so
        look at `over` first.
        """
        require_kernel(kernel)
        source = kernel.source if isinstance(kernel, Candidate) else kernel
        return self._steps.tell(source, parent, note)

    def use(self, tool: str, **arguments: object) -> Answer:
        """Apply one of the tools for agents (docs/agents.md) to this run; returns its answer.

        >>> import tilewright as tw
        >>> with tw.begin("gemmini:gemm-16x16x16", budget="2 evaluations") as run:
        ...     start = run.history[0].candidate.source
        ...     told = run.use("evaluate", kernel=start.replace("{", "{ fence();", 1))
        >>> told.verdict, told.left
        ('correct', 0)
        """
        return self._bench.call(tool, arguments)


def open_run(run: str = "latest", *, project: str | Path = ".") -> Run:
    """The run with this id or prefix of an id; "latest" is the newest run.

    Raises `UnknownNameError` if the project has no such run.

    >>> import tilewright as tw
    >>> run = tw.open_run("latest")
    >>> tw.open_run(run.id[:6]).id == run.id
    True
    """
    return Run(run, Path(project))
