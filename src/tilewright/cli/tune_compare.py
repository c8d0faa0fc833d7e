"""`tilewright tune-compare`: compares methods that search for tile sizes."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import Json, NoColor, UnusedProject
from tilewright.cli.tune_workloads import WorkloadRequest, parse_identifiers
from tilewright.core.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.tuning.comparison import Group
    from tilewright.tuning.comparison_table import Row

EPILOG = """
\b
Arms:
  default           MetaSchedule's evolutionary search with 164 features
  restricted        default, but varies only the tile sizes of a template
  af                restricted, but with analytical features
  ds                restricted, but with gradient descent
  af-ds             gradient descent with analytical features
  af-ds-knobs       af-ds, but varies all choices of the template
  af-ds-pretrained  af-ds with a cost model trained on other workloads
  af-ds-unrelated   af-ds with a cost model trained on other families of workloads
  roller            up to 50 tilings constructed by the rules of ROLLER; CPU only
  random            tilings chosen at random

\b
Example:
  tilewright tune-compare --arms default,af-ds --workloads M0..M5 \\
      --trials 100,1000 --seeds 3
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("tune-compare", epilog=EPILOG)(tune_compare)


def tune_compare(
    arms: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="The arms to compare, from the list below, separated by commas."
        ),
    ] = ("default,restricted,af,ds,af-ds"),
    workloads: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="The benchmark workloads to tune, by name or by range, such as M0..M5,R2.",
        ),
    ] = "M0..M5",
    trials: Annotated[
        str,
        typer.Option(
            metavar="N,N",
            help="Numbers of measured candidates after which the arms are compared; each arm "
            "measures the largest of these numbers.",
        ),
    ] = "100,1000",
    after: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS,SECONDS",
            help="Also compare the best kernels that each arm had found after these times of its "
            "own search, such as 60,120.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Number of repetitions, with the seeds 0, 1, 2 and so on."
        ),
    ] = 5,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="What the kernels run on; `tilewright tune --help` explains the possible values.",
        ),
    ] = "cpu",
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of CPU threads that the kernels use; by default 1."
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write the measurements, the table and the plots to this folder.",
        ),
    ] = Path("tune-compare"),
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Compare search methods for tile sizes.

    Each search method is called an arm, and all arms measure the same number of candidates. The
    arms take turns, and their best kernels are then measured again alternately. Every
    measurement is stored in the output folder. If the command is interrupted, repeat it to
    continue. You may add arms, workloads or seeds when you repeat the command.
    """
    names, counts, times = _arms(arms), _trials(trials), _times(after)
    identifiers = parse_identifiers(workloads)

    from tilewright.cli.console import notes
    from tilewright.cli.output import check_outputs, write_json, write_text
    from tilewright.tuner.tvm.loading import require_tvm

    check_outputs(json=json)
    require_tvm()
    from tilewright.tuner.tvm.result import check_folder
    from tilewright.tuner.tvm.runner import MeasuringRules
    from tilewright.tuner.tvm.setup import ARMS
    from tilewright.tuner.tvm.targets import parse_target
    from tilewright.tuning.comparison import Group, is_finished, read_runs, run_group
    from tilewright.tuning.comparison_plots import render_plots
    from tilewright.tuning.comparison_table import table
    from tilewright.tuning.comparison_text import left_out

    check_folder(output)
    opened = parse_target(target, threads)
    opened.require_present()
    cpu_only = [n for n in names if ARMS[n].pretrained or ARMS[n].search == "constructed"]
    if opened.is_gpu and cpu_only:
        raise InputError(
            f"--arms {','.join(cpu_only)} cannot be used with a GPU, because tilewright has no "
            "trained cost model and no rules for constructing tiles for GPUs. Leave it out."
        )
    console = notes()
    budgets = dict.fromkeys(names, counts[-1])
    for seed in range(seeds):
        for identifier in identifiers:
            program = WorkloadRequest(identifier=identifier).program()
            group = Group(program, seed, budgets, counts, times)
            if is_finished(group, opened, read_runs(output)):
                continue
            steps = _Steps(console, group)
            run_group(group, opened, output, MeasuringRules(), steps.take)
            runs = read_runs(output)
            write_text(output / "plots.html", render_plots(runs))
            write_json(output / "table.json", {"rows": [asdict(row) for row in table(runs)]})
    runs = read_runs(output)
    rows = table(runs)
    show(rows)
    for missing in left_out(runs):
        console.print(missing, markup=False, soft_wrap=True)
    for workload, sentence in {run["workload"]: run.get("no_library") for run in runs}.items():
        if sentence:
            console.print(f"{workload}: {sentence}", markup=False, soft_wrap=True)
    console.print(f"raw data, table.json and plots.html are in {output}/", markup=False)
    write_json(json, {"rows": [asdict(row) for row in rows]})


class _Steps:
    """Prints a line whenever an arm has completed another tenth of its trials."""

    def __init__(self, console: Any, group: Group) -> None:
        self._console, self._group = console, group
        self._said: dict[str, int] = {}

    def take(self, arm: str, trials: int, best_s: float | None) -> None:
        """Update the state with a step of one arm."""
        tenth = 10 * trials // self._group.budgets[arm]
        if tenth > self._said.get(arm, -1):
            self._said[arm] = tenth
            best = "none yet" if best_s is None else f"{best_s * 1e3:.4f} ms"
            name = f"{self._group.program.name} seed {self._group.seed}"
            self._console.print(
                f"{name} {arm}: {trials} trials, best {best}", markup=False, soft_wrap=True
            )


def show(rows: Sequence[Row]) -> None:
    """Print the rows of a comparison and an explanation."""
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.tuning.comparison_text import HEAD, caption, cells

    shown = Table(*HEAD, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*cells(row))
    results().print(shown)
    results().print(caption(rows), soft_wrap=True)


def _arms(text: str) -> list[str]:
    known = (
        *("default", "restricted", "af", "ds", "af-ds"),
        *("af-ds-knobs", "af-ds-pretrained", "af-ds-unrelated", "roller", "random"),
    )
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise UnknownNameError("arm", name, known)
    return names


def _trials(text: str) -> tuple[int, ...]:
    """The numbers of trials after which arms are compared, ascending. For a single number, a tenth
    of it is added.
    """
    counts = []
    for part in text.split(","):
        word = part.strip()
        if not re.fullmatch(r"0*[1-9][0-9]{0,8}", word):
            raise InputError(
                f"--trials {text[:40]} contains {word[:20]!r}. Give positive whole numbers below "
                "a billion, separated by commas."
            )
        counts.append(int(word))
    if len(counts) == 1:
        counts.append(max(1, counts[0] // 10))
    return tuple(sorted(set(counts)))


def _times(text: str | None) -> tuple[float, ...]:
    """The seconds after which arms are compared, ascending."""
    if text is None:
        return ()
    found = []
    for part in text.split(","):
        word = part.strip()
        if not re.fullmatch(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,3})?", word):
            raise InputError(
                f"--after {text[:40]} contains {word[:20]!r}. Give positive numbers of "
                "seconds below a million, separated by commas."
            )
        found.append(float(word))
    return tuple(sorted(set(found)))
