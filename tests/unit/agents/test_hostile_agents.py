"""Command-line agents in a search: whatever they do is bounded, and the search goes on."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright import run, session
from tilewright.agents.folder import task_text
from tilewright.agents.hidden_files import hidden_from_agents
from tilewright.cli.main import app
from tilewright.core import tasks
from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.core.records import Brief, Candidate, History, Trial
from tilewright.core.roles import Executor, Storage
from tilewright.core.run_notes import AgentWork
from tilewright.core.tasks import OpenTask
from tilewright.sandbox.hidden_paths import why_not
from tilewright.sandbox.total_limits import disk_bytes
from tilewright.search.events import AgentEnded, Event
from tilewright.testing.runs import measured
from tilewright.testing.toy import ToyExecutor, ToyTarget, ToyTask
from tilewright.tools.evaluation_shares import share_of
from tilewright.tools.findings import findings

SCRIPT = Path(__file__).with_name("hostile_agent.py")
TUNED = "toy 1 1 1 1 1"
SHARE = 5


class Ran:
    """One search with one agent: its trials, and how the agent ended."""

    def __init__(
        self, project: Path, mark: str, kind: str, options: str = "", **settings: Any
    ) -> None:
        self.mark = mark
        """In the command line of each of the agent's processes, and of no other."""
        command = f"agent:{sys.executable} {SCRIPT} {self.mark} {kind}?timeout_s=250{options}"
        self.heard: list[AgentWork] = []
        chosen = {"proposers": (command,), "iterations": 1, "share": SHARE, **settings}
        self.settings = Settings(**chosen)
        self.project = project
        self.summary = run.optimize(
            "toy:digits", self.settings, project=project, on_event=self._hear
        )
        storage = run.open_project(project)
        self.trials: list[Trial] = list(storage.history(self.summary.run_id))
        self.kept = storage.kept(self.summary.run_id, AgentWork)
        storage.close()

    def _hear(self, event: Event) -> None:
        if isinstance(event, AgentEnded):
            self.heard.append(event.work)

    @property
    def work(self) -> AgentWork:
        (work,) = self.heard
        return work

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.work.output.splitlines()]

    @property
    def sources(self) -> list[str]:
        return [trial.candidate.source for trial in self.trials[1:]]


Run = Callable[..., Ran]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    class Task(ToyTask):
        baselines = MappingProxyType({"tuned": TUNED})

    class Target(ToyTarget):
        def open(self, spec: str, settings: object) -> ToyTask:
            return Task()

    def create_executor(
        opened: OpenTask, settings: object, workers: int | None, storage: Storage | None
    ) -> Executor:
        assert storage is not None
        return ToyExecutor(lookup=storage.cached_outcome, store=storage.store_outcome)

    monkeypatch.setattr(tasks, "load_target", lambda name: Target())
    monkeypatch.setattr(session, "create_executor", create_executor)
    mark = uuid.uuid4().hex
    return lambda kind, options="", **settings: Ran(tmp_path / "p", mark, kind, options, **settings)


def processes_of(marker: str) -> list[str]:
    """Command lines of processes that are alive and have this text in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if marker in line and int(process.name) != os.getpid():
            found.append(line)
    return found


def test_what_an_agent_evaluates_are_trials_of_the_run(ran: Run) -> None:
    found = ran("good")
    assert found.sources == ["toy 9 9 9 9 8", "toy 9 9 9 9 7"]
    assert found.summary.best_latency == 225.0
    assert found.work.how == "submitted"
    assert found.work.submitted == found.trials[2].candidate.id
    assert (found.work.evaluations, found.work.calls) == (2, 2)
    first = found.said[0]["first"]
    assert (first["answer"]["latency"], first["answer"]["left"]) == (230.0, SHARE - 1)
    plan = found.trials[1].candidate.plan
    assert plan is not None
    assert (plan.text, plan.turn) == ("one less", 1)
    assert found.kept == found.heard


ENDED = {
    "flood": "flooded",
    "fork_bomb": "forked",
    "kill_keeper": "lost",
    "nothing": "exited",
    "fail": "exited",
    "close_the_pipe": "exited",
    "leave_children": "exited",
}


@pytest.mark.parametrize("kind", ENDED)
def test_it_is_ended_with_all_that_it_started(ran: Run, kind: str) -> None:
    found = ran(kind)
    assert found.work.how == ENDED[kind]
    assert found.summary.status == "finished"
    assert found.trials[0].latency == 235.0
    assert not processes_of(found.mark)


def test_its_exit_code_is_told(ran: Run) -> None:
    assert ran("fail").work.detail == "exit code 7"


def test_one_that_hangs_is_ended_after_its_time(ran: Run) -> None:
    found = ran("hang", "&timeout_s=1")
    assert (found.work.how, found.work.detail) == ("timed out", "it took more than 1 s")
    assert not processes_of(found.mark)


@pytest.mark.parametrize(
    "kind", ["fill_disk", "fill_disk_with_deleted_files", "nest_folders", "one_huge_file"]
)
def test_its_folder_is_bounded_and_removed(
    ran: Run, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as name:  # where no other test has folders
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        found = ran(kind, "&disk_mb=8&timeout_s=" + ("5" if kind == "one_huge_file" else "100"))
        assert found.work.how in ("disk", "timed out")
        assert kind == "one_huge_file" or found.work.how == "disk"
        assert not list(Path(name).iterdir())


def test_the_disk_that_a_folder_takes_is_counted_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 10_000)
    (tmp_path / "link").symlink_to("/")
    assert disk_bytes(tmp_path, 1 << 30) == 4096 + 12288 + 4096
    assert disk_bytes(tmp_path / "none", 1 << 30) == 0
    nest = "import os\nfor _ in range(1500): os.mkdir('d' * 9); os.chdir('d' * 9)"
    subprocess.run([sys.executable, "-c", nest], cwd=tmp_path, check=True)
    assert disk_bytes(tmp_path, 1 << 30) > 1 << 30
    subprocess.run(["rm", "-rf", tmp_path / ("d" * 9)], check=True)


def test_evaluations_beyond_its_share_are_refused(ran: Run) -> None:
    found = ran("evaluate_for_ever")
    assert len(found.sources) == found.work.evaluations == SHARE
    first, last = found.said
    assert first["evaluated"] == SHARE
    assert "share of 5 evaluations" in first["last"]["text"]
    assert last["refused"] == 2_100 - SHARE
    assert "more than 2000 calls" in last["last"]


def test_too_many_connections_are_refused_and_the_next_are_heard(ran: Run) -> None:
    found = ran("call_at_once")
    assert "too many calls" in found.said[0]["last"]
    assert found.sources == ["toy 9 9 9 9 8"]


def test_malformed_calls_are_answered_with_one_sentence(ran: Run) -> None:
    found = ran("malformed")
    *answers, nothing = (said["answer"] for said in found.said)
    assert nothing == {}
    for answer in answers:
        sentence = answer.get("error") or answer["text"]
        assert 10 < len(sentence) < 300
        assert "Traceback" not in sentence
    assert found.sources == []


def test_another_protocol_version_is_refused(ran: Run) -> None:
    found = ran("wrong_version")
    assert "version 1" in found.said[0]["answer"]["error"]
    assert "\x1b" not in found.said[0]["answer"]["error"]
    assert found.sources == []


def test_a_huge_source_is_refused(ran: Run) -> None:
    first, second = ran("huge_source").said
    assert "characters: give at most" in first["answer"]["text"]
    assert second["answer"] == {} or "at most" in second["answer"]["error"]


def test_kernels_of_others_win_nothing(ran: Run) -> None:
    found = ran("others_kernels")
    forged, start, copied = found.said
    assert forged["forged"]["refused"]
    assert start["start"]["answer"]["kernel"]["known"]
    assert copied["copied"]["refused"]
    assert "baseline 'tuned'" in copied["copied"]["text"]
    assert found.sources == []
    assert found.work.evaluations == 0


def test_a_forged_kernel_is_checked_like_every_one(ran: Run) -> None:
    found = ran("wrong_kernel")
    assert found.said[0]["forged"]["answer"]["kernel"]["verdict"] == "wrong_result"
    assert found.work.submitted == ""
    assert found.summary.best_latency == 235.0


def test_secrets_and_shipped_kernels_are_nowhere(
    ran: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("SEEN_FILE", str(seen))
    monkeypatch.setenv("SOME_API_KEY", "canary-c0ffee42-secret")
    ran("look_around", input_seed=777123456789)
    told = seen.read_text()
    assert "TASK.md" in told
    assert ".mcp.json" in told
    assert "canary" not in told
    assert "777123456789" not in told
    assert TUNED not in told


def targets_folder() -> Path:
    return Path(session.__file__).parent / "targets"


def test_tuned_kernels_and_project_files_cannot_be_read(ran: Run, tmp_path: Path) -> None:
    """Where the system gives a process namespaces of its own; else the run says that it did not."""
    found = ran(f"read_hidden {targets_folder()} {tmp_path / 'p' / '.tilewright'}")
    assert found.work.unhidden == why_not()
    if found.work.unhidden:
        pytest.skip(f"nothing can be hidden here: {found.work.unhidden}")
    read = found.said[0]
    assert read["there"] >= 4
    assert (read["texts"], read["below"], read["store"], read["tricks"]) == ("", [], [], "")
    assert found.sources == ["toy 9 9 9 9 8"]  # and yet it works


def test_every_tuned_kernel_of_the_targets_is_kept_back() -> None:
    hidden = hidden_from_agents(Path("/store"))
    assert Path("/store") in hidden
    makers = [
        path
        for path in targets_folder().rglob("*.py")
        if re.search(r"^def tuned_", path.read_text(), re.MULTILINE)
    ]
    assert len(makers) >= 3
    library = sorted((targets_folder() / "trainium" / "library" / "tuned").glob("*.py"))
    assert library
    for path in (*makers, *library):
        assert any(path == one or one in path.parents for one in hidden), path


def test_agents_are_told_what_others_found(ran: Run, tmp_path: Path) -> None:
    found = ran("good", iterations=3, beam=2)
    assert len(found.heard) > 1
    first, later = found.heard[0].parent, found.heard[-1].parent
    assert first != later
    told = findings(found.trials)
    assert "Changes that made kernels faster" in told
    assert "two less" in told
    assert "Changes that failed" not in told
    brief = Brief(ToyTask().workload, ToyTarget().brief(), (), 1, 1)
    text = task_text(brief, found.trials[0], 3, 60, told)
    assert "# What others found in this run" in text
    assert "two less" in text
    assert "# What others found" not in task_text(brief, found.trials[0], 3, 60)


def test_a_kernel_that_was_worked_on_in_vain_gets_half_of_the_share() -> None:
    start = Trial(0, 0, Candidate("toy 9 9 9 9 9"), measured(235.0))

    def after(*latencies: float) -> History:
        made = [
            Trial(n, n, Candidate(f"toy {n}", start.candidate.id), measured(latency))
            for n, latency in enumerate(latencies, 1)
        ]
        return History([start, *made])

    shares = [share_of(16, start, after(*[240.0] * n)) for n in range(6)]
    assert shares == [16, 8, 4, 2, 2, 2]
    assert share_of(16, start, after(240.0, 230.0)) == 16  # something of it was faster
    assert share_of(1, start, after(240.0, 240.0)) == 1


def test_its_own_key_is_passed_on_if_it_is_named(
    ran: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("SEEN_FILE", str(seen))
    monkeypatch.setenv("SOME_API_KEY", "canary-1")
    monkeypatch.setenv("OTHER_API_KEY", "canary-2")
    ran("look_around", "&key_env=SOME_API_KEY")
    assert "canary-1" in seen.read_text()
    assert "canary-2" not in seen.read_text()


def test_without_mcp_the_plain_command_reaches_the_tools(ran: Run) -> None:
    found = ran("by_command")
    assert found.said[0]["code"] == 0, found.said
    assert "compared with the parent" in found.said[0]["out"]
    assert found.sources == ["toy 9 9 9 9 8\n"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the package mcp")
def test_its_configuration_names_a_server_of_the_protocol(ran: Run) -> None:
    found = ran("by_mcp")
    assert found.said[0]["answer"]["kernel"]["latency"] == 230.0
    assert found.work.how == "submitted"


def test_the_budget_of_the_run_ends_agents_at_once(ran: Run) -> None:
    found = ran("evaluate_for_ever", max_evaluations=3)
    assert len(found.trials) == 3
    assert "evaluations" in found.summary.stop_reason
    assert not processes_of(found.mark)


def test_an_agent_whose_work_was_recorded_is_not_started_again(ran: Run) -> None:
    first = ran("good")
    storage = run.open_project(first.project)
    storage.update_run(first.summary.run_id, status="interrupted", stop_reason="", wall_s=0.0)
    storage.close()
    again = ran("good")
    assert again.summary.run_id == first.summary.run_id
    assert again.heard == []
    assert again.trials == first.trials


def test_agents_and_other_proposers_share_a_run(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.core import plugins
    from tilewright.testing.toy import ToyProposer

    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(run, "load_proposers", lambda names, brief: [ToyProposer() for _ in names])
    agent = f"agent:{sys.executable} {SCRIPT} mark good"
    found = ran("good", proposers=("toy", agent))
    authors = {trial.candidate.proposer for trial in found.trials[1:]}
    assert authors == {"toy", agent}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("agent:no-such-program-here -p", "not on PATH"),
        ("agent:", "incomplete"),
        ("agent:sh 'open", "quotes"),
        ("agent:sh?timeout_s=0", "above 0"),
        ("agent:sh?speed=9", "agent option"),
        ("agent:sh?key_env=HOME", "secret"),
    ],
)
def test_a_name_that_cannot_be_used_is_one_sentence(ran: Run, name: str, said: str) -> None:
    with pytest.raises(TilewrightError, match=said):
        ran("good", proposers=(name,))


@pytest.mark.parametrize("kind", ["replace_folder", "link_to"])
def test_files_outside_its_folder_are_not_removed_with_it(
    ran: Run, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    found = ran(f"{kind} {tmp_path / 'other'}")
    assert (tmp_path / "other" / "file").read_text() == "mine"
    assert (found.summary.status, found.work.how) == ("finished", "exited")


@pytest.mark.parametrize("kind", ["stop_keeper", "half_a_call", "change_process"])
def test_no_process_of_it_stays_when_nothing_answers_signals_or_calls(ran: Run, kind: str) -> None:
    found = ran(kind, "&timeout_s=3")
    assert found.summary.status == "finished"
    assert not processes_of(found.mark)


def test_no_text_of_it_changes_the_terminal_or_ends_a_command(ran: Run) -> None:
    found = ran("not_text")
    report = ["report", "latest", "-o", str(found.project / "report.html")]
    for command in (
        ["runs", "show", "latest", "--full"],
        ["runs", "list"],
        ["best", "latest"],
        report,
    ):
        ended = CliRunner().invoke(app, [*command, "--project", str(found.project)])
        assert ended.exit_code == 0, ended.output
        assert not set("\x1b\x9b\x00\u202e\ud800") & set(ended.output)


def test_its_share_holds_for_calls_at_the_same_moment(ran: Run) -> None:
    found = ran("evaluate_together")
    assert len(found.sources) == found.work.evaluations == SHARE


def test_arguments_without_bounds_are_refused(ran: Run) -> None:
    said = [json.dumps(one) for one in ran("exceed").said]
    expected = (
        "at most 100",
        "several places",
        "one line",
        "not a list",
        "neither the id",
        "at most",
    )
    assert len(said) == len(expected)
    for text, part in zip(said, expected, strict=True):
        assert part in text
        assert len(text) < 700
