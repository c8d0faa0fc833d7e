"""A win is bundled, verified elsewhere, and refuted where it does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tilewright import bundle_creation, bundles, run
from tilewright.cli.main import app
from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.records import Candidate, EvaluationRequest, RunRecord, Trial
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.storage.bundle_file import pack
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]


def record(project: Path, task: str, winner: Callable[[Any], str]) -> None:
    """A finished run of two trials: the starting kernel and a winner."""
    settings = Settings(seed=4)
    opened = open_task(task, settings.recorded())
    made = RunRecord(
        "win", opened.name, opened.target.name, settings.recorded(),
        {**opened.target.versions(), "task": opened.fingerprint}, "2026-01-01", "finished",
    )  # fmt: skip
    start = Candidate(opened.task.start)
    better = Candidate(winner(opened.task), start.id)
    with closing(run.open_project(project, create=True)) as storage:
        storage.create_run(made)
        for index, candidate in enumerate((start, better)):
            outcome = evaluate(opened.task.evaluator, EvaluationRequest(candidate))
            storage.append_trial(made.id, Trial(index, index, candidate, outcome))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    record(folder, "gemmini:gemm-64x64x64", lambda task: str(task.baselines["tuned"]))
    return folder


@pytest.fixture
def document(project: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "win.twb").write_bytes(bundle_creation.create(project, "win"))
    return bundles.read(tmp_path / "win.twb")


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_win_is_confirmed(project: Path, tmp_path: Path) -> None:
    file, report = tmp_path / "win.twb", tmp_path / "verified.json"
    written = command("bundle", "win", "-o", file, "--project", project)
    assert written.exit_code == 0, written.output
    ended = command("verify", file, "--json", report)
    assert ended.exit_code == 0, ended.output
    assert "gemmini:gemm-64x64x64: confirmed" in ended.output
    found = json.loads(report.read_text())
    assert found["confirmed"]
    assert found["reasons"] == []
    assert found["speedup_here"] == pytest.approx(found["speedup_recorded"])
    assert {fact["name"] for fact in found["facts"] if not fact["same"]} == set()


def test_equal_runs_have_equal_bundles(project: Path) -> None:
    assert bundle_creation.create(project, "win") == bundle_creation.create(project, "win")


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a faster winner than there is": (
        lambda d: d["winner_outcome"].update(latency=d["winner_outcome"]["latency"] / 2),
        "not"),
    "a slower start than there is": (
        lambda d: d["start_outcome"].update(latency=d["start_outcome"]["latency"] * 2), "not"),
    "a winner that is wrong": (
        lambda d: d.update(winner=d["winner"].replace("fence();", "").replace("mvout", "// ")),
        "on this machine: "),
    "another task of this name": (
        lambda d: d["workload"].update(operations=5), "another task here"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_win_is_not_confirmed(document: dict[str, Any], tmp_path: Path, name: str) -> None:
    """Whoever changes a bundle can give it a new digest; doing the work again finds it."""
    forge, reason = FORGERIES[name]
    forge(document)
    file = tmp_path / "forged.twb"
    file.write_bytes(pack(document))
    ended = command("verify", file)
    assert ended.exit_code == 1, ended.output
    assert "not confirmed" in ended.output
    assert reason in ended.output


UNUSABLE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a target that is not installed": (
        lambda d: d["run"].update(task="tpu9:gemm-1x1x1"), "unknown target 'tpu9'"),
    "records of a newer version": (
        lambda d: d["winner_outcome"].update(temperature=3), "not those of this version"),
    "settings of a newer version": (
        lambda d: d["run"]["settings"].update(temperature=3), "not known to this version"),
    "a missing part": (lambda d: d.pop("winner_outcome"), "not those of this version"),
    "a failure as evidence": (
        lambda d: d.update(winner_outcome={
            "type": "Failed", "stage": "check", "kind": "crash", "log": ""}),
        "not those of this version"),
    "a file outside its folder": (
        lambda d: d["files"].update({"../escape.toml": "x"}), "not those of this version"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_bundle_is_one_sentence(
    document: dict[str, Any], tmp_path: Path, name: str
) -> None:
    change, message = UNUSABLE[name]
    change(document)
    (tmp_path / "odd.twb").write_bytes(pack(document))
    ended = command("verify", tmp_path / "odd.twb")
    assert isinstance(ended.exception, TilewrightError), ended.exception
    assert ended.exception.exit_code == 2
    assert message in str(ended.exception)
    assert "\n" not in str(ended.exception)


def test_no_win_no_bundle(tmp_path: Path) -> None:
    record(tmp_path, "gemmini:gemm-16x16x16", lambda task: "void kernel(void) {}")
    with pytest.raises(InputError, match="no kernel that is faster than its starting kernel"):
        bundle_creation.create(tmp_path, "win")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    ended = command("verify", tmp_path / "none.twb")
    assert isinstance(ended.exception, InputError)


REFERENCE = (
    "import numpy as np\n\n\ndef reference(A):\n    return np.trunc(A / 2).astype(np.int8)\n"
)
SLOW = (
    "void kernel(const int8_t *A, int8_t *C) {\n"
    "  for (volatile int n = 0; n < 3000; n++) {}\n"
    "  for (int i = 0; i < 256; i++) C[i] = A[i] / 2;\n}\n"
)


def test_a_users_reference_runs_only_when_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "my-kernel"
    folder.mkdir()
    (folder / "workload.toml").write_text(
        'target = "gemmini"\noperations = 256\nreduction = 1\n'
        '[[argument]]\nname = "A"\nshape = [16, 16]\ndtype = "int8"\nrole = "input"\n'
        '[[argument]]\nname = "C"\nshape = [16, 16]\ndtype = "int8"\nrole = "output"\n'
    )
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.c").write_text(SLOW)
    record(tmp_path, str(folder), lambda task: SLOW.replace("3000", "30"))
    file = tmp_path / "win.twb"
    assert command("bundle", "win", "-o", file, "--project", tmp_path).exit_code == 0
    document = bundles.read(file)
    assert str(tmp_path) not in json.dumps(document)
    (tmp_path / "secret").write_text("key")
    (folder / "notes.py").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"notes\.py cannot be put .*a link to a file outside"):
        bundle_creation.create(tmp_path, "win")
    (folder / "notes.py").unlink()
    refused = command("verify", file)
    assert isinstance(refused.exception, InputError)
    assert "--trust-reference" in str(refused.exception)
    assert "np.trunc" in command("verify", file, "--print-reference").output
    ended = command("verify", file, "--trust-reference")
    assert ended.exit_code == 0, ended.output
    (folder / "reference.py").write_text(REFERENCE.replace("2", "3"))
    with pytest.raises(InputError, match="has changed since run win"):
        bundle_creation.create(tmp_path, "win")
