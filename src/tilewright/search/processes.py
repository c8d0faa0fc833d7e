"""A way to propose in several processes, for a proposer that handles each parent separately.

A parent is assigned to the process that has proposed for it before, which has stored results about
it, unless this process already has its share of the parents. Consecutive searches can use the same
processes (`kept_processes`).
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from queue import SimpleQueue
from signal import SIGKILL
from threading import Event, Lock, Thread
from typing import Self

from tilewright.core.errors import InputError, InternalError
from tilewright.core.records import History, Trial
from tilewright.core.roles import FindsUnsupportedCode
from tilewright.sandbox.child import Child
from tilewright.sandbox.forking import Prepared, prepared
from tilewright.search.in_process import Answers, Lazy
from tilewright.search.proposing import Arrival, Stream
from tilewright.search.steps import Expansion, Message, SearchTask

_PROGRAM = "tilewright.search.proposing_process"
_STOP_S = 10.0
"""Maximum number of seconds that a search waits until a kept process has finished the step that it
was making for the previous search."""
_kept: ContextVar[list[_Process] | None] = ContextVar("kept", default=None)


@dataclass(frozen=True, slots=True)
class Asked:
    """An expansion for a process, and the trials of the history that the process has not received.

    The history of the process is the one that it received before, with `trials` appended. Unless it
    `continues`, the history begins empty.
    """

    expansion: Expansion
    continues: bool
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Coming:
    """The kernel for which a process will soon propose, and the proposers that can already read
    it."""

    source: str
    readers: tuple[FindsUnsupportedCode, ...]


@contextmanager
def kept_processes() -> Iterator[None]:
    """In this block, each search takes the processes of an earlier search that have imported the
    same modules.

    Searches of one workload ask many equal questions about kernels, and the processes have stored
    the answers.
    """
    kept: list[_Process] = []
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        for process in kept:
            process.kill()


class Processes:
    """A context manager that proposes in up to `count` processes.

    `meanwhile` is called in this process whenever the others have begun to propose. `coming` is
    the kernel for which the first plans will be made, if it is known.
    """

    def __init__(
        self,
        task: SearchTask,
        count: int = 2,
        *,
        meanwhile: Callable[[], None] = lambda: None,
        coming: Coming | None = None,
    ) -> None:
        try:
            self._opening = pickle.dumps(task)
        except Exception as error:  # attributes of the proposer may raise any exception
            raise InputError(
                f"proposer {task.proposer.name!r} has `parallel` set but cannot be pickled "
                f"({error}). Make its attributes picklable, or set `parallel` to false."
            ) from error
        modules = {_PROGRAM, type(task.proposer).__module__}
        if hasattr(task.proposer, "modules"):
            modules.update(task.proposer.modules(task.target))
        self._preparation = prepared(modules, _import_environment())
        self._processes: list[_Process] = []
        self._count = count
        self._meanwhile = meanwhile
        self._coming = coming
        self._home: dict[str, int] = {}  # parent -> number of the process that has worked on it

    def __enter__(self) -> Self:
        try:
            self._start(1)  # a search begins with one parent
            if self._coming is not None:
                self._processes[0].announce(self._coming)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def begin(self, expansions: Sequence[Expansion], history: History) -> Sequence[Stream]:
        """Assign every parent to a process."""
        homes = self._homes(expansions)
        self._start(1 + max(homes, default=0))
        streams = []
        for expansion, number in zip(expansions, homes, strict=True):
            streams.append(self._processes[number].give(expansion, history))
        self._meanwhile()
        return streams

    def begin_answer(self, answer: Callable[[], list[Message]]) -> Stream:
        """The answer is made in this process when it is requested."""
        return Lazy(message for _ in range(1) for message in answer())

    def arrived(self, timeout: float) -> list[Arrival]:
        """Always empty, because no author works while kernels are evaluated."""
        return []

    @property
    def at_work(self) -> bool:
        """Always false, for the same reason."""
        return False

    def end(self) -> None:
        """Stop processes that are still working, because their proposals are not needed."""
        if any(process.is_at_work() for process in self._processes):
            self._stop()

    def _homes(self, expansions: Sequence[Expansion]) -> list[int]:
        """The number of the process for each parent. The numbers of parents per process differ by
        at most one.
        """
        most = -(-len(expansions) // self._count)
        given = [0] * self._count
        homes = []
        for expansion in expansions:
            home = self._home.get(expansion.parent_id)
            if home is None or given[home] == most:
                home = given.index(min(given))
                self._home[expansion.parent_id] = home
            given[home] += 1
            homes.append(home)
        return homes

    def _start(self, count: int) -> None:
        """Start processes until there are this many. Processes that have ended are replaced."""
        for number, process in enumerate(self._processes):
            if process.has_ended():
                self._processes[number] = self._opened()
                process.kill()
        while len(self._processes) < count:
            self._processes.append(self._opened())

    def _opened(self) -> _Process:
        """A kept process, or else a new one, that proposes for this search."""
        kept = _kept.get() or []
        for process in [p for p in kept if p.preparation == self._preparation]:
            stopped = process.has_stopped(_STOP_S)
            kept.remove(process)
            if stopped:
                process.open(self._opening)
                return process
            process.kill()
        process = _Process(self._preparation)
        process.open(self._opening)
        return process

    def _stop(self) -> None:
        kept = _kept.get()
        for process in self._processes:
            if kept is None:
                process.kill()
            else:
                process.stop()
                kept.append(process)
        self._processes = []


class _Process:
    """One process that proposes, with a thread that receives its messages."""

    def __init__(self, preparation: Prepared | None) -> None:
        self.preparation = preparation
        try:
            self._child = Child(_PROGRAM, preparation=preparation)
        except OSError as error:
            raise InternalError(
                f"a process that proposes candidates cannot be started ({error.strerror}). Free "
                "memory or end other processes, or use fewer workers with --jobs."
            ) from error
        self._known = History()
        self._lock = Lock()
        self._ended: InternalError | None = None
        self._answers: dict[int, Answers] = {}  # by rank, for expansions that are not finished
        self._stopped = Event()
        self._reader = Thread(target=self._read, name="propose", daemon=True)
        self._reader.start()

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended is not None

    def open(self, opening: bytes) -> None:
        """Let the process propose for the search of this pickled task."""
        self._known = History()
        self._child.send(opening)

    def announce(self, coming: Coming) -> None:
        """Let the process read a kernel for which it will propose."""
        self._child.send(pickle.dumps(coming))

    def stop(self) -> None:
        """Let the process drop everything that it was asked."""
        with self._lock:
            self._answers = {}
        self._stopped.clear()
        self._child.send(pickle.dumps(None))

    def has_stopped(self, timeout_s: float) -> bool:
        """Whether the process is idle, after `stop`, within this number of seconds."""
        return not self.has_ended() and self._stopped.wait(timeout_s) and not self.has_ended()

    def is_at_work(self) -> bool:
        """Whether answers are still missing."""
        return bool(self._answers)

    def give(self, expansion: Expansion, history: History) -> Answers:
        """Let the process propose for a parent, after the parents that it received before."""
        new = history.since(self._known)
        asked = Asked(expansion, new is not None, tuple(history) if new is None else new)
        answers: Answers = SimpleQueue()
        with self._lock:
            self._known, self._answers[expansion.rank] = history, answers
            if self._ended is not None:
                answers.put(self._ended)
        # If the process ends now, this is detected when its answers are read.
        self._child.send(pickle.dumps(asked))
        return answers

    def kill(self) -> None:
        """End the process and release its resources."""
        self._child.signal_end()
        self._reader.join()
        self._child.kill()

    def _read(self) -> None:
        try:
            while True:
                rank, message = pickle.loads(self._child.receive())
                if rank is None:
                    self._stopped.set()
                    continue
                with self._lock:
                    is_last = message is None or isinstance(message, BaseException)
                    answers = self._answers.get(rank)
                    if is_last:
                        self._answers.pop(rank, None)
                if answers is not None:  # it was not stopped in the meantime
                    answers.put(message)
        except EOFError:
            pass
        except Exception:  # a plug-in's record that can be sent but not received
            self._child.signal_end()
            raise
        finally:
            status = self._child.wait()
            how = f"was killed by signal {-status}" if status < 0 else "has ended"
            lack = ", which the system does when memory runs out" if status == -SIGKILL else ""
            ended = InternalError(
                f"a process that proposes candidates {how}{lack}. Call the same command again; if "
                "memory is short, use fewer workers with --jobs."
            )
            with self._lock:
                self._ended = ended
                for answers in self._answers.values():
                    answers.put(ended)
            self._stopped.set()


def _import_environment() -> dict[str, str]:
    """The variables with which modules of tilewright are imported."""
    names = ("PATH", "HOME", "LANG", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    prefixes = ("PYTHON", "LD_", "LC_")
    return {n: v for n, v in os.environ.items() if n in names or n.startswith(prefixes)}
