"""A worker of a cluster that does harm, at an address of this machine that is a further host.

`python lying_worker.py HARM HOST SCHEDULER OFFERS`; the harms are the names in `HARMS`. It
evaluates as an honest worker does, and then changes the answer, or does not answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import Worker

from tilewright.cluster import remote
from tilewright.core.codec import to_json
from tilewright.core.records import Check, Measured, Verdict

STAYS_S = 1.0
"""Seconds between two connections of a worker that connects again and again."""
_honest = remote.evaluate


def _changed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """An answer in which every reply is changed in place."""

    def evaluate(message: bytes) -> bytes:
        replies = json.loads(_honest(message))
        for reply in replies:
            change(reply)
        return json.dumps(replies).encode()

    return evaluate


def _halve(reply: dict[str, Any]) -> None:
    if "latency" in reply.get("outcome", {}):
        reply["outcome"]["latency"] /= 2


def _halve_some(reply: dict[str, Any]) -> None:
    """Of kernels that are neither the slowest nor the fastest."""
    if 195 <= reply.get("outcome", {}).get("latency", 0) < 215:
        _halve(reply)


def _pass_wrong_kernels(reply: dict[str, Any]) -> None:
    if reply.get("outcome", {}).get("kind") == "wrong_result":
        reply["outcome"] = PASSED


def _claim_versions(reply: dict[str, Any]) -> None:
    if "versions" in reply:
        reply["versions"] = {**reply["versions"], "toy": "0.9"}


def _die(message: bytes) -> bytes:
    time.sleep(0.05)
    os._exit(1)


def _say_nothing(message: bytes) -> bytes:
    time.sleep(10_000)
    return b""


PASSED = to_json(
    Measured(105.0, "ns", "measured", 0.9, Verdict((Check(0, "full range"),)), artifact_digest="x")
)
"""The outcome with which a worker claims that a wrong kernel is correct and fast."""
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "halves latencies": _changed(_halve),
    "halves latencies and connects again and again": _changed(_halve),
    "halves some latencies": _changed(_halve_some),
    "passes wrong kernels": _changed(_pass_wrong_kernels),
    "has other versions": _changed(_claim_versions),
    "sends 100 MB": lambda message: b"[" + b"0," * (50 << 20) + b"0]",
    "sends no JSON": lambda message: b"\x00" * 100,
    "sends a pickle that is no message": lambda message: ["not", "bytes"],  # type: ignore[return-value]
    "ends whenever it evaluates": _die,
    "never answers": _say_nothing,
}


async def _work(host: str, address: str, offers: dict[str, Any], stays_s: float | None) -> None:
    while True:
        worker = Worker(
            address,
            host=host,
            nthreads=1,
            resources=dict.fromkeys(offers, 1),
            memory_limit=0,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
            metrics={"tilewright": lambda worker: offers},
        )
        async with worker:
            if stays_s is None:
                await worker.finished()
            else:
                await asyncio.sleep(stays_s)


def _noted(evaluate: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """The same, and the file LYING_WORKER_LOG has a line for each message."""

    def noted(message: bytes) -> bytes:
        with Path(os.environ["LYING_WORKER_LOG"]).open("a") as log:
            log.write("message\n")
        return evaluate(message)

    return noted


def main(harm: str, host: str, address: str, offers: str) -> None:
    """Do this harm until killed; a process that ends is started again."""
    if harm == "ends whenever it evaluates" and os.environ.get("LYING_WORKER") != "1":
        while True:
            os.spawnle(
                os.P_WAIT,
                sys.executable,
                sys.executable,
                *sys.argv,
                {**os.environ, "LYING_WORKER": "1"},
            )
    remote.evaluate = _noted(HARMS.get(harm, _honest))
    asyncio.run(_work(host, address, json.loads(offers), STAYS_S if "again" in harm else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
