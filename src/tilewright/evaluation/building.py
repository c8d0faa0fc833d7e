"""Builds kernels and runs nothing of them: what compiler, rules, machine code and models say."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tilewright.core.codec import from_json, to_json
from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Candidate, Failed, Measured
from tilewright.evaluation.local import CHECKPOINT_EVERY_S, START_TIMEOUT_S, readable
from tilewright.evaluation.replies import raised
from tilewright.evaluation.timeouts import Allowance, StageTimeouts, load_in_words
from tilewright.evaluation.worker_process import WorkerProcess


class Builds:
    """Builds one kernel at a time in a worker process, which starts with the first. Thread-safe.

    `task` and `settings` are those of `LocalExecutor`.
    """

    def __init__(self, task: str, settings: Mapping[str, object]) -> None:
        self._open_message = {"open": {"task": task, "settings": dict(settings)}}
        self._timeout_s = StageTimeouts.from_settings(settings).build
        # A worker dies with the thread that started it: this one lives as long as `self`.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="build")
        self._worker: WorkerProcess | None = None

    def problem(self, source: str) -> Failed | None:
        """Why a kernel does not build, or None; raises the target's own errors."""
        message = {"build": to_json(Candidate(source))}
        found = self._thread.submit(self._asked, message, "problem").result()
        assert found is None or isinstance(found, Failed)
        return found

    def code(self, source: str) -> CompiledCode | Failed | None:
        """What the compiler makes of a kernel, or why it does not build.

        None where the target does not show machine code; raises the target's own errors.
        """
        found = self._thread.submit(self._asked, {"code": source}, "code").result()
        assert found is None or isinstance(found, CompiledCode | Failed)
        return found

    def modelled(self, source: str) -> Measured | Failed | None:
        """What the target's model says of a kernel that nothing was compared of.

        None where latencies are not modelled; raises the target's own errors.
        """
        found = self._thread.submit(self._asked, {"model": source}, "modelled").result()
        assert found is None or isinstance(found, Measured | Failed)
        return found

    def close(self) -> None:
        """Stop the worker. Idempotent."""
        if self._worker is not None:
            self._thread.submit(self._stop)
        self._thread.shutdown()

    def _asked(self, message: Mapping[str, object], name: str) -> object:
        if self._worker is None:
            self._worker = WorkerProcess()
            self._worker.send(self._open_message)
            failed = self._answer("ready", START_TIMEOUT_S)
            if isinstance(failed, Failed):
                return failed
        self._worker.send(message)
        return self._answer(name, self._timeout_s)

    def _answer(self, name: str, timeout_s: float) -> object:
        """What the worker says of `name`; a failure where it dies or hangs, which ends it."""
        worker = self._worker
        assert worker is not None
        try:
            allowance = Allowance(timeout_s)
            while not readable([worker], CHECKPOINT_EVERY_S):
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
        if "error" in reply:
            self._stop()
            raise raised(reply["error"])
        return from_json(reply[name])

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
