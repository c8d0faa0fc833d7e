"""Verifies evidence bundles: the result of a run in one file, which others can verify on another
machine (`bundle_creation` writes it).

A bundle contains everything that is needed to repeat the evaluation. `verify` relies on none of its
numbers: it rebuilds the starting kernel and the winner, checks both on inputs from fresh seeds,
measures both, tests the task's correctness check, and lists all differences.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.core.errors import InputError
from tilewright.core.files import read_bytes
from tilewright.core.records import Candidate, Failed, Outcome, Workload
from tilewright.core.roles import Attackable, HasLatencyFloor
from tilewright.core.tasks import OpenTask, open_task, open_workload
from tilewright.evaluation.preflight.examine import refusal
from tilewright.evaluation.screening import allowed_difference, below_floor
from tilewright.report.text import number
from tilewright.storage.bundle_file import MAX_BYTES, unpack
from tilewright.storage.evidence import (
    TARGET_FILE,
    Evidence,
    read_evidence,
    text_suffixes,
)
from tilewright.verification import as_winner, attack, fresh_seed, recheck


@dataclass(frozen=True, slots=True)
class Row:
    """One value in the bundle and on this machine. If it `matters`, a difference refutes the
    result.

    Latencies and speedups are the `same` if they differ by no more than the noise of the
    measurement.
    """

    name: str
    recorded: str
    here: str
    same: bool
    matters: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification. `reasons` say why the result of the bundle is not confirmed."""

    workload: str
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]
    speedup_recorded: float
    speedup_here: float | None

    @property
    def confirmed(self) -> bool:
        """Whether the result is confirmed on this machine."""
        return not self.reasons


def read(file: Path) -> dict[str, Any]:
    """The document of a bundle; `InputError` if the file is not a bundle, is damaged, or has a
    newer format.
    """
    try:
        return unpack(read_bytes(file, MAX_BYTES), file.name)
    except OSError as error:
        raise InputError(
            f"bundle {file} cannot be read ({error.strerror}). Give a file that `tilewright "
            "bundle` wrote."
        ) from error


def texts_of(document: Mapping[str, Any]) -> str | None:
    """The files in a bundle that determine which results are correct, if any."""
    return read_evidence(document).texts


def brings_code(document: Mapping[str, Any]) -> bool:
    """Whether verifying a bundle runs its own reference.py, so that `trust_reference` is needed."""
    return read_evidence(document).brings_code


def verify(document: Mapping[str, Any], *, trust_reference: bool = False) -> Verification:
    """Repeat the evaluation of a bundle on this machine.

    Raises `InputError` if its target is not installed, if a version with other records wrote it, or
    if it contains a reference that may not run here. No folder of this machine is opened: the task
    is a registered one, or that of the bundle's own files.
    """
    evidence = read_evidence(document)
    if evidence.brings_code and not trust_reference:
        raise InputError(
            "the bundle contains a reference.py, which would run on this machine. Read it with "
            "--print-reference; if you trust it, call verify again with --trust-reference."
        )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        opened, settings = _opened(evidence, folder)
        weakness = None
        if isinstance(opened.task, Attackable):
            weakness = refusal(opened.task.workload.name, attack(opened.name, settings))
        again = [_measured_again(opened, settings, source) for source in evidence.sources]
    return _compare(evidence, opened, (again[0], again[1]), weakness)


def _opened(evidence: Evidence, folder: Path) -> tuple[OpenTask, Mapping[str, object]]:
    """The task, made from the bundle's files if there are any, and the settings of the
    evaluation.
    """
    for name, text in evidence.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    settings = evidence.settings
    if TARGET_FILE in evidence.files:
        settings = replace(settings, target=str(folder / TARGET_FILE))
    recorded = settings.evaluated_with(fresh_seed())
    if evidence.is_folder:
        opened = open_task(str(folder), recorded)
        for name in evidence.files:
            if not name.endswith(text_suffixes(opened.target.brief().language.suffix)):
                raise InputError(
                    f"the bundle contains the file {name}, which is not a text file of a kernel "
                    f"folder in {opened.target.brief().language.name}: do not trust it."
                )
        return opened, recorded
    return open_workload(evidence.task, recorded), recorded


def _measured_again(opened: OpenTask, settings: Mapping[str, object], source: str) -> Outcome:
    outcome = recheck(opened.name, as_winner(settings), Candidate(source))
    task = opened.task
    return below_floor(outcome, task.floor if isinstance(task, HasLatencyFloor) else None)


def _compare(
    evidence: Evidence,
    opened: OpenTask,
    here: tuple[Outcome, Outcome],
    weakness: str | None,
) -> Verification:
    versions, recorded = evidence.versions, evidence.outcomes
    rows = [
        Row(name, versions.get(name, "none"), now, versions.get(name) == now)
        for name, now in opened.target.versions().items()
    ]
    same_machine = all(row.same for row in rows)
    rows.append(_same_task(evidence, opened.task.workload))
    reasons = [weakness] if weakness else []
    if not rows[-1].same:
        what = (
            "its files describe another task"
            if evidence.is_folder
            else "this name means another task here"
        )
        reasons.append(f"the bundle says that it is about {evidence.workload.name}, but {what}")
    if evidence.sources[0] != opened.task.start:
        reasons.append(
            "the starting kernel is not that of the task, so the speedup says nothing about "
            "the task"
        )
    latencies: list[float] = []
    allowed: list[float] = []
    for name, was, now in zip(("starting kernel", "winner"), recorded, here, strict=True):
        shown = f"{number(was.latency)} {was.unit}"
        if isinstance(now, Failed):
            rows.append(Row(name, shown, now.words, False, True))
            reasons.append(f"the {name} {now.words} on this machine: {now.log}")
            continue
        latencies.append(now.latency)
        off = abs(now.latency / was.latency - 1)
        allowed.append(allowed_difference(now, now))  # the noise that a bundle states may be false
        found = f"{number(now.latency)} {now.unit}"
        rows.append(Row(name, shown, found, off <= allowed[-1], same_machine))
        digests = was.artifact_digest[:16], now.artifact_digest[:16]
        rows.append(Row(f"{name}'s binary", *digests, digests[0] == digests[1]))
        if same_machine and off > allowed[-1]:
            reasons.append(f"the {name} takes {found} here, not {number(was.latency)}")
    claimed = recorded[0].latency / recorded[1].latency
    reached = latencies[0] / latencies[1] if len(latencies) == 2 else None
    shown = f"{reached:.3f}x" if reached else "none"
    same = reached is not None and abs(reached / claimed - 1) <= max(allowed)
    rows.append(Row("speedup", f"{claimed:.3f}x", shown, same, True))
    if reached is not None and reached <= 1:
        reasons.append("the winner is no faster than the starting kernel here")
    elif reached is not None and reached < claimed * (1 - max(allowed)):
        reasons.append(f"the speedup is {reached:.3f}x here, not {claimed:.3f}x")
    name = opened.task.workload.name
    if evidence.is_folder:
        name = f"{name} (the bundle's own task)"
    return Verification(name, tuple(rows), tuple(reasons), claimed, reached)


def _same_task(evidence: Evidence, here: Workload) -> Row:
    """Whether the bundle's task is the task with this name here. The name of a folder's task is not
    compared, because it may be the name of the temporary folder.
    """
    recorded = replace(evidence.workload, source="")
    if evidence.is_folder:
        recorded = replace(recorded, name=here.name)
    equal = recorded == replace(here, source="")
    return Row("task", evidence.workload.name, here.name, equal, matters=True)
