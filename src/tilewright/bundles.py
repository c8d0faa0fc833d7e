"""Evidence bundles: a run's win in one file that anyone can check elsewhere.

A bundle holds what is needed to do the work again. `verify` believes none of its numbers: it
rebuilds the starting kernel and the winner, checks both on inputs of fresh seeds, measures both,
attacks the task's check, and says what differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.core.codec import from_json, to_json
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, Failed, Measured, Outcome, RunRecord
from tilewright.core.roles import Attackable, Floored
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.preflight.examine import refusal
from tilewright.evaluation.screening import allowed_difference, below_floor
from tilewright.run import open_project
from tilewright.session import baselines, confirmed
from tilewright.storage.bundle_file import pack, unpack
from tilewright.verification import as_winner, attack, recheck

SEEDS_POLICY = (
    "Inputs of the run follow from its seed; its winner was then rebuilt and checked on seeds of "
    "the operating system's random source, which are kept nowhere. Whoever verifies draws new ones."
)
_TARGET_FILE = "target-file.toml"
_SUFFIXES = (".toml", ".py", ".c", ".h")
_MAX_FILES_BYTES = 16 << 20


def create(project: Path, run_name: str) -> bytes:
    """The bundle of a run's best kernel; `InputError` when nothing beats the starting kernel."""
    with closing(open_project(project)) as storage:
        run = storage.run(run_name)
        history = storage.history(run.id)
        compared = baselines(storage, run.id)
        held = confirmed(storage, run.id)
    best, start = history.best, history.baseline
    if best is None or start is None or best.index == 0:
        raise InputError(
            f"run {run.id} has no kernel faster than its starting one: there is no win to bundle "
            f"(`tilewright runs show {run.id}` says what happened)."
        )
    opened = open_task(run.task, run.settings)
    trials = [
        {"index": t.index, "candidate": to_json(t.candidate), "outcome": to_json(t.outcome)}
        for t in history.lineage(best.candidate.id)
    ]
    return pack({
        "run": {
            "id": run.id, "task": _public_name(run), "target": run.target,
            "settings": _public_settings(run), "versions": dict(run.versions),
            "created_at": run.created_at, "wall_s": run.wall_s, "stop_reason": run.stop_reason,
            "evaluations": len(history),
        },
        "workload": to_json(replace(opened.task.workload, source="")),
        "files": _files(run, opened),
        "start": start.candidate.source,
        "winner": best.candidate.source,
        "start_outcome": to_json(start.outcome),
        "winner_outcome": to_json(best.outcome),
        "confirmed": held == best.candidate.id,
        "baselines": to_json(list(compared)),
        "lineage": trials,
        "seeds": SEEDS_POLICY,
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One fact in the bundle and here; `matters` if a difference refutes the win."""

    name: str
    recorded: str
    here: str
    same: bool
    matters: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """What doing the work again gave. `reasons` say why a win is not confirmed."""

    workload: str
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]
    speedup_recorded: float
    speedup_here: float | None

    @property
    def confirmed(self) -> bool:
        """Whether the win holds here."""
        return not self.reasons


def read(file: Path) -> dict[str, Any]:
    """The document of a bundle; `InputError` for a file that is none, damaged or newer."""
    try:
        return unpack(file.read_bytes(), file.name)
    except OSError as error:
        raise InputError(f"bundle {file} cannot be read: {error.strerror}.") from error


def reference_of(document: Mapping[str, Any]) -> str | None:
    """The user's code that a bundle brings and that verifying would run, if any."""
    texts = [f"# {n}\n{text}" for n, text in document["files"].items() if n.endswith(".py")]
    return "\n".join(texts) or None


def verify(document: Mapping[str, Any], *, trust_reference: bool = False) -> Verification:
    """Do a bundle's work again on this machine.

    `InputError` when its target is not installed, when it was written by a version with other
    records, or when it brings a reference of its own that is not trusted to run here.
    """
    if reference_of(document) is not None and not trust_reference:
        raise InputError(
            "the bundle brings its own reference.py, which would run on this machine: read it with "
            "--print-reference, then repeat with --trust-reference."
        )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        start, winner, settings, opened = _opened(document, folder)
        recorded = settings.recorded()
        weakness = None
        if isinstance(opened.task, Attackable):
            weakness = refusal(opened.task.workload.name, attack(opened.name, recorded))
        again = [
            _measured_again(opened, recorded, document[which]) for which in ("start", "winner")
        ]
    return _compare(document, opened, (start, winner), (again[0], again[1]), weakness)


def _opened(
    document: Mapping[str, Any], folder: Path
) -> tuple[Measured, Measured, Settings, OpenTask]:
    try:
        start, winner = (from_json(document[k]) for k in ("start_outcome", "winner_outcome"))
        settings = dict(from_json(document["run"]["settings"]))
        task, files = str(document["run"]["task"]), dict(document["files"])
        if not isinstance(start, Measured) or not isinstance(winner, Measured):
            raise ValueError("no measurements")
        for name, text in files.items():
            if Path(name).name != name:
                raise ValueError(f"a file outside its folder: {name}")
            (folder / name).write_text(text, encoding="utf-8")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            "the bundle's records are not those of this version of tilewright "
            f"({type(error).__name__}: {error}): verify it with the version that wrote it."
        ) from error
    if _TARGET_FILE in files:
        settings["target"] = str(folder / _TARGET_FILE)
    chosen = Settings.from_recorded(settings)
    name = str(folder) if "workload.toml" in files else task
    return start, winner, chosen, open_task(name, chosen.recorded())


def _measured_again(opened: OpenTask, settings: Mapping[str, object], source: str) -> Outcome:
    outcome = recheck(opened.name, as_winner(settings), Candidate(source))
    return below_floor(outcome, opened.task.floor if isinstance(opened.task, Floored) else None)


def _compare(
    document: Mapping[str, Any],
    opened: OpenTask,
    recorded: tuple[Measured, Measured],
    here: tuple[Outcome, Outcome],
    weakness: str | None,
) -> Verification:
    versions = document["run"]["versions"]
    rows = [
        Row(name, str(versions.get(name, "none")), now, versions.get(name) == now)
        for name, now in opened.target.versions().items()
    ]
    same_machine = all(row.same for row in rows)
    rows.append(_same("task", from_json(document["workload"]), opened.task.workload))
    reasons = [weakness] if weakness else []
    if not rows[-1].same and "workload.toml" not in document["files"]:
        reasons.append("the workload of this name is another one here")
    latencies: list[float] = []
    allowed: list[float] = []
    for name, was, now in zip(("starting kernel", "winner"), recorded, here, strict=True):
        shown = f"{was.latency:g} {was.unit}"
        if isinstance(now, Failed):
            rows.append(Row(name, shown, f"{now.stage}: {now.kind}", False, True))
            reasons.append(f"the {name} fails here: {now.kind}: {now.log}")
            continue
        latencies.append(now.latency)
        off = abs(now.latency / was.latency - 1)
        rows.append(Row(name, shown, f"{now.latency:g} {now.unit}", off == 0, same_machine))
        digests = was.artifact_digest[:16], now.artifact_digest[:16]
        rows.append(Row(f"{name}'s binary", *digests, digests[0] == digests[1]))
        allowed.append(allowed_difference(was, now))
        if same_machine and off > allowed[-1]:
            reasons.append(f"the {name} takes {now.latency:g} {now.unit} here, not {was.latency:g}")
    claimed = recorded[0].latency / recorded[1].latency
    reached = latencies[0] / latencies[1] if len(latencies) == 2 else None
    shown = f"{reached:.3f}x" if reached else "none"
    rows.append(Row("speedup", f"{claimed:.3f}x", shown, shown == f"{claimed:.3f}x", True))
    if reached is not None and reached < claimed * (1 - max(allowed)):
        reasons.append(f"the speedup is {reached:.3f}x here, not {claimed:.3f}x")
    name = opened.task.workload.name
    return Verification(name, tuple(rows), tuple(reasons), claimed, reached)


def _same(name: str, recorded: Any, here: Any) -> Row:
    equal = replace(recorded, source="") == replace(here, source="")
    return Row(name, recorded.name, here.name, equal)


def _public_name(run: RunRecord) -> str:
    """A folder's path is nobody's business."""
    return Path(run.task).name if Path(run.task).is_absolute() else run.task


def _public_settings(run: RunRecord) -> dict[str, Any]:
    settings = dict(to_json(dict(run.settings)))
    if str(settings.get("target") or "").endswith(".toml"):
        settings["target"] = _TARGET_FILE
    return settings


def _files(run: RunRecord, opened: OpenTask) -> dict[str, str]:
    """A user's kernel folder and target file, as texts."""
    found: dict[str, str] = {}
    chosen = str(run.settings.get("target") or "")
    if chosen.endswith(".toml"):
        found[_TARGET_FILE] = Path(chosen).read_text(encoding="utf-8")
    folder = Path(run.task)
    if folder.is_absolute():
        if opened.fingerprint != run.versions.get("task"):
            raise InputError(
                f"{folder} has changed since run {run.id}: restore the files of that run, or start "
                "a new one."
            )
        for path in sorted(folder.iterdir()):
            if path.suffix in _SUFFIXES and path.is_file():
                found[path.name] = path.read_text(encoding="utf-8")
    if sum(map(len, found.values())) > _MAX_FILES_BYTES:
        raise InputError(f"the text files of {folder} are too large for a bundle: keep data apart.")
    return found
