"""No process of a cluster runs a program that a message contains, whoever sends it."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

import hostile_messages as hostile
from dask._task_spec import Task
from distributed.client import _MapExpr
from distributed.scheduler import KilledWorker, WorkerState

from tilewright.cluster import remote
from tilewright.cluster.connection import Connection
from tilewright.cluster.identity import read_identity
from tilewright.cluster.local_workers import LocalCluster
from tilewright.cluster.plain_messages import RefusedMessageError, Role, reader

WAIT_S = 60.0
ANSWERS = ("header", "type in a header", "type", "exception")
"""After these, the search knows whether its message is answered or lost. The scheduler ends the
connection with a worker that sends one of the other kinds.
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, str]]:
    """The addresses of a scheduler and of its worker."""
    with closing(LocalCluster(1, {"cpu": {}})) as started:
        yield started.address, _workers(started.address)[0]


def _workers(address: str) -> list[str]:
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        if workers := list(read_identity(address, address)["workers"]):
            return workers
        time.sleep(0.2)
    pytest.fail("no worker connects to the scheduler")


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_requests_run_nothing(cluster: tuple[str, str], tmp_path: Path) -> None:
    """Each of them ran a program in the scheduler or in the worker, or ended it."""
    for name in hostile.requests(""):
        for address in cluster:
            asyncio.run(hostile.send(address, hostile.requests(str(tmp_path / name))[name]))
    time.sleep(0.5)
    assert list(tmp_path.iterdir()) == []
    assert read_identity(cluster[0], cluster[0])["workers"].keys() >= {cluster[1]}


def test_work_for_the_scheduler_runs_nothing(cluster: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "ran"
    asyncio.run(hostile.send_graph(cluster[0], str(file)))
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_a_worker_runs_nothing_elsewhere(kind: str, tmp_path: Path) -> None:
    """Messages of a worker ran programs in the scheduler, in the search, or in both."""
    file, script = tmp_path / "ran", str(Path(hostile.__file__))
    with (
        closing(LocalCluster(0, {})) as started,
        running(script, kind, started.address, str(file)) as worker,
        closing(Connection(started.address, "it", identify=True)) as connection,
    ):
        connection.send([b"{}"], {})
        arrived = []
        end_s = time.monotonic() + (30 if kind in ANSWERS else 8)
        while time.monotonic() < end_s and not arrived:
            arrived = connection.receive(0.2)
        time.sleep(0.3)
        readers = set(file.read_text().split()) if file.exists() else set()
        assert readers <= {str(worker.pid)}
        assert arrived or kind not in ANSWERS


@pytest.mark.slow
def test_dasks_own_scheduler_runs_them(tmp_path: Path) -> None:
    """The messages of these tests are effective."""
    file, address_file = tmp_path / "ran", tmp_path / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    program = ["-m", "distributed.cli.dask_scheduler", *options]
    with running(*program, "--scheduler-file", str(address_file)) as scheduler:
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s and not address_file.exists():
            time.sleep(0.2)
        time.sleep(0.2)
        address = json.loads(address_file.read_text())["address"]
        for name in ("header", "run_function", "feed"):
            asyncio.run(hostile.send(address, hostile.requests(str(file))[name]))
        time.sleep(0.3)
        assert file.read_text().split() == [str(scheduler.pid)] * 3


def _pickle(*parts: Any) -> bytes:
    """A pickle that consists of these opcodes and values."""
    out = io.BytesIO()
    out.write(pickle.PROTO + b"\x04")
    for part in parts:
        if isinstance(part, tuple):
            module, name = (pickle.SHORT_BINUNICODE + bytes([len(p)]) + p.encode() for p in part)
            out.write(module + name + pickle.STACK_GLOBAL)
        elif isinstance(part, str):
            out.write(pickle.SHORT_BINUNICODE + bytes([len(part)]) + part.encode())
        else:
            out.write(part)
    return out.getvalue() + pickle.STOP


EVALUATE = ("tilewright.cluster.remote", "evaluate")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_pickle(("os", "system"), "true", pickle.TUPLE1, pickle.REDUCE), "os.system"),
        (_pickle(("builtins", "eval")), "builtins.eval"),
        (_pickle(("tilewright.cluster.remote", "evaluate.__globals__")), "__globals__"),
        (_pickle(("builtins", "bytes"), pickle.EMPTY_TUPLE, pickle.REDUCE), "may not call"),
        (_pickle(("builtins", "bytes"), pickle.EMPTY_TUPLE, pickle.NEWOBJ), "may not call"),
        (pickle.dumps("a text"), "is a string"),
    ],
)
def test_a_pickle_is_refused(role: Role, data: bytes, reason: str) -> None:
    with pytest.raises(RefusedMessageError, match=reason):
        reader(role)(data)


@pytest.mark.parametrize("step", [pickle.INST, pickle.OBJ, pickle.EXT1])
def test_steps_of_old_pickles_are_refused(step: bytes) -> None:
    with pytest.raises(KeyError):
        reader(Role.SEARCH)(_pickle(pickle.MARK, step, b"collections\ndeque\n"))


@pytest.mark.parametrize("role", [Role.SCHEDULER, Role.WORKER])
def test_a_message_does_not_call_or_change_the_function_of_workers(role: Role) -> None:
    loads = reader(role)
    assert loads(pickle.dumps(remote.evaluate)) is remote.evaluate
    with pytest.raises(RefusedMessageError, match="may not call"):
        loads(_pickle(EVALUATE, b"C\x01x", pickle.TUPLE1, pickle.REDUCE))
    change = (pickle.EMPTY_DICT, "module", "other", pickle.SETITEM, pickle.BUILD)
    with pytest.raises(RefusedMessageError, match="changes a class or a function"):
        loads(_pickle(EVALUATE, *change))


def test_a_message_does_not_change_a_class() -> None:
    change = (pickle.EMPTY_DICT, "func", "other", pickle.SETITEM, pickle.BUILD)
    with pytest.raises(RefusedMessageError, match="changes a class or a function"):
        reader(Role.WORKER)(_pickle(("dask._task_spec", "Task"), *change))


def test_each_process_reads_what_it_needs() -> None:
    task = reader(Role.WORKER)(pickle.dumps(Task("key", remote.evaluate, b"message")))
    assert (task.key, task.func, task.args) == ("key", remote.evaluate, (b"message",))
    sent = _MapExpr(remote.evaluate, [[b"message"]], ["key"], False, {}, {})
    read = reader(Role.SCHEDULER)(pickle.dumps(sent))
    assert read.func is remote.evaluate
    assert list(read.keys) == ["key"]
    worker = WorkerState.__new__(WorkerState)
    worker.address = "tcp://127.0.0.1:1"
    ended = reader(Role.SEARCH)(pickle.dumps(KilledWorker("key", worker, 3)))
    assert ended.last_worker.address == worker.address


def test_this_process_reads_no_other_objects() -> None:
    """A search that has connected to a scheduler."""
    program = (
        "import pickle, os\n"
        "from tilewright.cluster.plain_messages import Role, read_only_plain_messages\n"
        "read_only_plain_messages(Role.SEARCH)\n"
        "import distributed.client, distributed.protocol.pickle as p\n"
        "for loads in (p.loads, distributed.client.loads, distributed.client.pickle.loads):\n"
        "    try:\n"
        "        loads(pickle.dumps(os.system))\n"
        "    except TypeError as error:\n"
        "        print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.count(".system, which is refused") == 3, ended.stderr
