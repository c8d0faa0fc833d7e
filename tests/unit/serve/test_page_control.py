"""Stopping, resuming and labelling runs: only by a form of the page, and only the right process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tilewright.core.errors import InputError
from tilewright.core.records import RunRecord
from tilewright.core.run_notes import Label
from tilewright.serve import control
from tilewright.stopping import request_stop
from tilewright.storage.project import open_project
from tilewright.testing.runs import history, run_record

from .conftest import Client, store

ORIGIN = "http://127.0.0.1:8123"
WORKER = """
import signal, sys, time
from pathlib import Path
from tilewright.stopping import StopRequests
from tilewright.storage.project import open_project, run_lock
# A suite that was started in the background ignores interrupts, and so would this process.
how = signal.SIG_IGN if sys.argv[4] == "ignores" else signal.default_int_handler
signal.signal(signal.SIGINT, how)
folder, run, identity = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with run_lock(folder, identity):
    requests = StopRequests(open_project(folder), run)
    try:
        with requests.watched():
            print("works", flush=True)
            while not requests.is_pending:
                time.sleep(0.05)
            print("asked", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@contextmanager
def worker(folder: Path, run: RunRecord, how: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that works on the run."""
    command = [sys.executable, "-c", WORKER, str(folder), run.id, run.identity, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "works\n"
            yield process
        finally:
            process.kill()


def press(client: Client, path: str, **fields: str) -> tuple[int, str]:
    form = {"csrf": client.access.csrf_token(), **fields}
    answer = client.ask(path, "POST", urlencode(form).encode(), origin=ORIGIN)
    return answer.status, answer.text


@pytest.mark.parametrize(("how", "end"), [("", "interrupted\n"), ("ignores", "asked\n")])
def test_stop_ends_the_work_on_the_run(
    tmp_path: Path, served: Callable[..., Client], how: str, end: str
) -> None:
    run = store(tmp_path, history(3, lines=8), run_record(status="running"))
    client = served(tmp_path)
    with worker(tmp_path, run, how) as process:
        assert press(client, f"/runs/{run.id}/stop")[0] == 303
        assert process.communicate(timeout=120)[0] == end
    status, text = press(client, f"/runs/{run.id}/stop")
    assert status == 400
    assert "is not running" in text


def test_earlier_requests_do_not_end_later_work(tmp_path: Path) -> None:
    run = store(tmp_path, history(3, lines=8), run_record(status="running"))
    with closing(open_project(tmp_path)) as storage:
        request_stop(storage, run.id)
    with worker(tmp_path, run) as process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)


def test_no_process_gets_a_signal_from_the_page(tmp_path: Path) -> None:
    """The number in the lock's file may belong to any process."""
    run = store(tmp_path, history(3, lines=8), run_record(status="running"))
    lock = tmp_path / ".tilewright" / "locks" / f"{run.identity}.lock"
    with (
        worker(tmp_path, run) as process,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other,
    ):
        lock.write_text(f"{other.pid}\n")
        control.stop(tmp_path, run)
        assert process.communicate(timeout=120)[0] == "interrupted\n"
        assert other.poll() is None
        other.kill()


def test_resume_starts_the_command_in_a_session_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store(tmp_path, history(3, lines=8), run_record(status="interrupted"))
    started: list[list[str]] = []
    real = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(command)
        assert options["start_new_session"]
        return real(
            [sys.executable, "-c", "print('no such target'); raise SystemExit(2)"], **options
        )  # type: ignore[call-overload]

    monkeypatch.setattr(control.subprocess, "Popen", start)
    with pytest.raises(InputError, match="did not continue: no such target"):
        control.resume(tmp_path, run)
    assert started[0][1:7] == ["-P", "-m", "tilewright.cli", "runs", "resume", run.id]
    assert started[0][-1] == str(tmp_path.resolve())


def test_five_presses_of_resume_start_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store(tmp_path, history(3, lines=8), run_record(status="interrupted"))
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(_: list[str], **options: object) -> subprocess.Popen[bytes]:
        waits = [sys.executable, "-c", "print('goes on', flush=True); import time; time.sleep(60)"]
        started.append(real(waits, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(control.subprocess, "Popen", start)
    monkeypatch.setattr(control, "EARLY_S", 0.5)
    with ThreadPoolExecutor(5) as pool:
        for press in [pool.submit(control.resume, tmp_path, run) for _ in range(5)]:
            press.result()
    assert len(started) == 1
    assert (tmp_path / ".tilewright" / "serve" / f"{run.id}.log").read_text() == "goes on\n"
    started[0].kill()
    started[0].wait()
    control.resume(tmp_path, run)
    started[1].kill()
    assert len(started) == 2, "a run whose process has ended is resumed again"


def test_a_finished_run_is_not_resumed(client: Client) -> None:
    status, text = press(client, "/runs/3fa94c10/resume")
    assert status == 400
    assert "nothing to resume" in text


def test_tags_and_notes_are_kept(client: Client) -> None:
    assert press(client, "/runs/3fa94c10/label", tags="a b a", text=" <b>x</b> ")[0] == 303
    with closing(open_project(client.project.folder)) as storage:
        assert storage.kept("3fa94c10", Label) == [Label(("a", "b"), "<b>x</b>")]


@pytest.mark.parametrize("form", [b"", b"csrf=", b"csrf=guess&tags=x", b"\xff\xfe", b"&" * 70_000])
def test_a_form_without_its_token_changes_nothing(client: Client, form: bytes) -> None:
    answer = client.ask("/runs/3fa94c10/label", "POST", form, origin=ORIGIN)
    assert answer.status in (403, 413)
    with closing(open_project(client.project.folder)) as storage:
        assert storage.kept("3fa94c10", Label) == []


def test_a_read_only_page_offers_and_does_nothing(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    store(tmp_path, history(3, lines=8))
    client = served(tmp_path, read_only=True)
    assert 'method="post"' not in client.ask("/runs/3fa94c10").text
    for action in ("stop", "resume", "label"):
        status, text = press(client, f"/runs/3fa94c10/{action}", tags="x")
        assert status == 403
        assert "--read-only" in text
    with closing(open_project(tmp_path)) as storage:
        assert storage.kept("3fa94c10", Label) == []


def test_asking_for_a_change_with_get_does_nothing(client: Client) -> None:
    assert client.ask("/runs/3fa94c10/stop").status == 405
