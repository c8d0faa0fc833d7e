"""The command line in the toy world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from toy_cli import Cli, Result, World

from tilewright import evaluating, session
from tilewright.cli.main import main
from tilewright.core import plugins, tasks
from tilewright.core.records import EvaluationRequest, Outcome
from tilewright.core.roles import Checkpoint, Executor, More, OnOutcome, Storage
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import ToyExecutor, ToyProposer, ToyTarget


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World([])

    class Interruptible(ToyExecutor):
        def evaluate(
            self,
            requests: Sequence[EvaluationRequest],
            on_outcome: OnOutcome | None = None,
            more: More | None = None,
            checkpoint: Checkpoint | None = None,
        ) -> list[Outcome]:
            if made.interrupt_after is not None and len(made.evaluated) >= made.interrupt_after:
                raise KeyboardInterrupt
            return super().evaluate(requests, on_outcome, more, checkpoint)

    def create_executor(
        opened: OpenTask, settings: object, workers: int | None, storage: Storage | None
    ) -> Executor:
        made.executors += 1
        return Interruptible(
            lookup=storage.cached_outcome if storage else lambda key: None,
            store=storage.store_outcome if storage else lambda key, outcome: None,
            on_evaluated=made.evaluated.append,
        )

    monkeypatch.setattr(tasks, "load_target", lambda name: ToyTarget())
    monkeypatch.setattr(plugins, "load_target", lambda name: ToyTarget())
    monkeypatch.setattr(plugins, "target_names", lambda: ["toy"])
    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(evaluating, "create_executor", create_executor)
    monkeypatch.setattr(session, "create_executor", create_executor)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs one command line in this process."""
    monkeypatch.setenv("NO_COLOR", "")  # as unset, and the end of the test undoes `--no-color`

    def call(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, captured.out, captured.err)

    return call
