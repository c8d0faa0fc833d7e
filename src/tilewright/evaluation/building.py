"""Builds kernels without running them, and returns the results of compiler, rules, machine code and
latency model.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from tilewright.core.codec import from_json, to_json
from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Candidate, Failed, LatencyKind, Measured
from tilewright.core.roles import Checkpoint
from tilewright.core.tasks import target_for
from tilewright.evaluation.local import CHECKPOINT_EVERY_S, START_TIMEOUT_S, readable
from tilewright.evaluation.replies import raised
from tilewright.evaluation.timeouts import Allowance, StageTimeouts, load_in_words
from tilewright.evaluation.worker_process import WorkerProcess, start_worker


class Builds:
    """Builds one kernel at a time in a worker process, which is started with the first kernel.
    Thread-safe.

    `task` and `settings` are those of `LocalExecutor`. An exception from `checkpoint`, which is
    called often, ends a build.
    """

    def __init__(
        self,
        task: str,
        settings: Mapping[str, object],
        checkpoint: Checkpoint = lambda: None,
    ) -> None:
        self._open_message: dict[str, dict[str, Any]] = {
            "open": {"task": task, "settings": dict(settings)}
        }
        self._timeout_s = StageTimeouts.from_settings(settings).build
        self._checkpoint = checkpoint
        # A worker ends with the thread that started it, so this thread exists as long as `self`.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="build")
        self._worker: WorkerProcess | None = None

    @cached_property
    def _latency(self) -> LatencyKind:
        message = self._open_message["open"]
        return target_for(message["task"], message["settings"]).brief().latency

    def problem(self, source: str) -> Failed | None:
        """The failure of a kernel's build, or the rule that it breaks when it runs, if the target
        finds such rules; None for neither. Raises the exceptions of the target."""
        message = {"build": to_json(Candidate(source))}
        found = self._thread.submit(self._asked, message, "problem").result()
        assert found is None or isinstance(found, Failed)
        return found

    def code(self, source: str) -> CompiledCode | Failed | None:
        """The machine code of a kernel, or the failure of its build.

        None if the target does not show machine code; raises the exceptions of the target.
        """
        found = self._thread.submit(self._asked, {"code": source}, "code").result()
        assert found is None or isinstance(found, CompiledCode | Failed)
        return found

    def modelled(self, source: str) -> Measured | Failed | None:
        """The modelled latency of a kernel whose results were not compared.

        None if latencies are not modelled; raises the exceptions of the target. A latency of
        another kind than the target's is a failure of the process that sent it.
        """
        found = self._thread.submit(self._asked, {"model": source}, "modelled").result()
        assert found is None or isinstance(found, Measured | Failed)
        if isinstance(found, Measured) and not found.is_of(self._latency):
            text = (
                f"the building process gave a latency in {found.quantity} {found.unit!r}, but the "
                f"target's latencies are {self._latency}."
            )
            return Failed("measure", "crash", text)
        return found

    def close(self) -> None:
        """Stop the worker. May be called again."""
        if self._worker is not None:
            self._thread.submit(self._stop)
        self._thread.shutdown()

    def _asked(self, message: Mapping[str, object], name: str) -> object:
        if self._worker is None:
            opening = self._open_message["open"]
            self._worker = start_worker(opening["task"], opening["settings"])
            self._worker.send(self._open_message)
            failed = self._answer("ready", START_TIMEOUT_S)
            if isinstance(failed, Failed):
                return failed
        self._worker.send(message)
        return self._answer(name, self._timeout_s)

    def _answer(self, name: str, timeout_s: float) -> object:
        """The worker's answer to the request `name`. If the worker dies or hangs, it is ended and
        the answer is a failure.
        """
        worker = self._worker
        assert worker is not None
        try:
            allowance = Allowance(timeout_s)
            while not readable([worker], CHECKPOINT_EVERY_S):
                self._checkpoint()
                if not allowance.is_used():
                    continue
                self._stop()
                return Failed(
                    "build",
                    "timeout",
                    f"the build was stopped because it took more than {timeout_s:g} s "
                    f"(load of the machine: {load_in_words()}).",
                )
            reply = worker.receive()
        except EOFError:
            self._worker = None
            log = worker.kill()
            text = f"the building process {worker.exit_text}. {log}".strip()
            return Failed("build", "crash", text)
        except BaseException:  # its answer to this request would be read as that to the next
            self._stop()
            raise
        if "error" in reply:
            self._stop()
            raise raised(reply["error"])
        return from_json(reply[name])

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
