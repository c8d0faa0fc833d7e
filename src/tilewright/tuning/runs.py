"""One tuning run, from a program to a folder of results, which can be resumed at any time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core.tuning_records import KnownKernel, TunedKernel, TuningRecord
from tilewright.storage.project import open_tunings, run_lock
from tilewright.storage.tunings import SqlTunings
from tilewright.tuner.space import TileSpace
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import Earlier, method_name, open_search
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.trials import Ledger, Trial
from tilewright.tuning.earlier_runs import nearest_runs, recorded_runs, training_set_of
from tilewright.tuning.instruments import Instruments, OpenInstruments, real_instruments
from tilewright.tuning.stored import (
    TuneSettings,
    family_of,
    identity_of,
    kernel_in,
    learned_from,
    measurement_of,
    new_record,
    points_of,
    stored_trial,
)
from tilewright.tuning.winner import NoWinner, Winner, finish


@dataclass(frozen=True)
class TuneResult:
    """The result of a run. `winner` is None if every candidate failed, and `NoWinner` if all
    finalists failed when they were measured again.

    `ledger` divides the time of this session into its parts.
    """

    record: TuningRecord
    trials: list[Trial]
    ledger: Ledger
    measured: int
    winner: Winner | NoWinner | None
    files: list[Path]
    facts: dict[str, object]
    interrupted: bool


OnStart = Callable[[TuningRecord, int], None]
"""Called with the record of the run and the number of its earlier trials."""

OnTrial = Callable[[Trial], None]


def tune(
    program: Program,
    target: TuningTarget,
    settings: TuneSettings,
    *,
    project: Path,
    output: Path,
    on_start: OnStart | None = None,
    on_trial: OnTrial | None = None,
    open_instruments: OpenInstruments = real_instruments,
) -> TuneResult:
    """Search, measure and store. The same call continues where the last one ended.

    After Ctrl-C, the search ends when the current candidate is finished, and the best kernel so far
    is confirmed and written. Raises `InputError` if this machine does not have the device of the
    target.
    """
    target.require_present()
    with closing(open_tunings(project)) as storage:
        identity = identity_of(program, target, settings)
        with (
            run_lock(project, f"tune-{identity}"),
            open_instruments(program, target, settings.seed, settings.rules) as tools,
        ):
            return _tune(
                program, target, settings, identity, storage, output, on_start, on_trial, tools
            )


def _tune(
    program: Program,
    target: TuningTarget,
    settings: TuneSettings,
    identity: str,
    storage: SqlTunings,
    output: Path,
    on_start: OnStart | None,
    on_trial: OnTrial | None,
    tools: Instruments,
) -> TuneResult:
    earlier = None if settings.fresh else storage.latest(identity)
    starts: list[Mapping[str, object]] = list(earlier.starts) if earlier else []
    counts = learned_from(earlier) if earlier else {}

    def known(space: TileSpace) -> Earlier:
        if earlier is None and not settings.fresh:
            family, extents = family_of(space), space.workload.extents
            near = storage.nearest(family, target.text, extents, shapes=4, each=2)
            starts.extend(tile.point for tile in near)
            if settings.method.pretrained:
                runs = nearest_runs(storage, family, target, extents)
                counts.update((run.record.id, len(run.trials)) for run in runs)
        runs = recorded_runs(storage, counts)
        return Earlier(
            points_of(space, starts), training_set_of(runs, space, target, settings.method)
        )

    search = open_search(program, target, settings.method, settings.trials, settings.seed, known)
    record = earlier or storage.start(
        new_record(program, target, settings, identity, search, starts, counts)
    )
    kept = storage.trials(record.id)
    measured = {trial.key: measurement_of(trial) for trial in kept}
    spent = Ledger(wall_s=max([record.wall_s, *(trial.elapsed_s for trial in kept)]))
    if on_start is not None:
        on_start(record, len(measured))

    def keep(trial: Trial) -> None:
        if trial.key not in measured:
            storage.add(record.id, [stored_trial(trial)])
        if on_trial is not None:
            on_trial(trial)

    runner = tools.runner
    with tools.new_builder() as builder, _interrupts() as interrupted:
        budget = Budget(settings.trials, settings.seconds)
        ahead = target.spare_cores > 0
        tuning = Tuning(search, builder, runner, budget, measured, keep, ahead, spent)
        while tuning.step(interrupted):
            pass
        stopped = interrupted()
        wall_s = search.ledger.wall_s if tuning.measured else spent.wall_s
        storage.end(record.id, "interrupted" if stopped else "finished", wall_s)
        if tuning.measured:  # its other entries belong to this session too
            search.ledger.wall_s -= spent.wall_s
        winner: Winner | NoWinner | None = None
        files: list[Path] = []
        about: dict[str, object] = {
            "run": record.id,
            "workload": program.name,
            "method": dict(record.settings),
            "versions": dict(record.versions),
            "trials": len(tuning.trials),
            "wall_s": wall_s,
        }
        if tuning.best is not None:
            known_before: list[KnownKernel] = []
            if not settings.fresh:
                extents = search.anatomy.workload.extents
                known_before = [
                    *storage.fastest(target.text, extents),
                    *kernel_in(output, program.name, target),
                ]
            winner, files, about = finish(
                search, tuning.trials, builder, runner, output, about, known_before
            )
        if isinstance(winner, Winner) and winner.own_source is not None:
            storage.keep_kernel(
                TunedKernel(
                    record.id,
                    program.name,
                    target.device.name,
                    method_name(settings.method),
                    len(tuning.trials),
                    winner.own_seconds,
                    winner.own_source,
                )
            )
    return TuneResult(
        record=record,
        trials=tuning.trials,
        ledger=search.ledger,
        measured=tuning.measured,
        winner=winner,
        files=files,
        facts=about,
        interrupted=stopped,
    )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the second press interrupts as usual."""
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread, which would not receive the exception there
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
