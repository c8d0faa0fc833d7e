"""Batches of a proposer that computes for each parent apart: several processes work for it.

A parent goes to the process that has proposed for it before, which remembers what it found out,
unless that one has more than its share to do. What is handed on is in the order of parents and
their plans, whoever is done first: the same batch as from a single process.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from signal import SIGKILL
from threading import Lock, Thread
from types import TracebackType
from typing import Self, TypeAlias

from tilewright.core.errors import InputError, InternalError, TilewrightError
from tilewright.core.records import (
    Candidate,
    EvaluationRequest,
    History,
    Trial,
)
from tilewright.core.roles import SearchStrategy
from tilewright.search.events import Event, Implemented, OnEvent
from tilewright.search.family import Children, Family, Forms
from tilewright.search.proposing import SOON_S, Batches, Parts, SearchTask, T, awaited

_COMMAND = (sys.executable, "-P", "-m", "tilewright.search.family_process")

Answer: TypeAlias = Event | Children | TilewrightError | None
"""What is heard of a parent; None is its end."""


class ApartBatches(Batches):
    """Proposes in `processes` processes, from when it is entered until it is left."""

    def __init__(
        self,
        task: SearchTask,
        strategy: SearchStrategy,
        on_event: OnEvent,
        *,
        processes: int = 2,
    ) -> None:
        super().__init__(task, strategy, on_event)
        try:
            self._opening = pickle.dumps(task)
        except Exception as error:  # whatever the proposer's own attributes raise
            raise InputError(
                f"proposer {task.proposer.name!r} says that it is parallel but cannot be pickled "
                f"({error}): make what it holds picklable, or `parallel` false."
            ) from error
        self._processes: list[_Process] = []
        self._wanted = processes
        self._home: dict[str, int] = {}  # parent -> number of the process that knows it

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Parts:
        """The batch in parts: at each request for one, all that was made since the last."""
        complete = False
        try:
            answers = self._hand_out(iteration, parents, history, checkpoint)
            self._begin(history)
            part: list[EvaluationRequest] = []
            for parent, answer in zip(parents, answers, strict=True):
                made = kept = 0
                while True:
                    try:
                        message = answer.get(timeout=0.0 if part else SOON_S)
                    except Empty:
                        checkpoint()
                        yield part
                        part = []
                        continue
                    if isinstance(message, TilewrightError):
                        raise message
                    if message is None:
                        break
                    if isinstance(message, Children):
                        self._forms |= {child.id: form for child, form in message.made}
                        fresh = self._fresh(parent, [child for child, _ in message.made])
                        made, kept = made + len(message.made), kept + len(fresh)
                        part += fresh
                    else:
                        self._on_event(message)
                self._on_event(Implemented(iteration, parent.candidate.id, kept, made - kept))
            complete = True
            if part:
                yield part
        finally:
            if not complete:
                self._stop()  # nobody wants what they still make

    def _hand_out(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None],
    ) -> list[SimpleQueue[Answer]]:
        """Give every parent to a process; what comes back for each, in their order.

        Returns once the normal forms of all earlier candidates are known: those that an earlier
        session made are asked for, in equal shares.
        """
        self._start()
        unknown = [t.candidate for t in history if t.candidate.id not in self._forms]
        count = min(self._wanted, len(parents))
        shares = [unknown[n::count] for n in range(count)]
        forms: SimpleQueue[Forms | TilewrightError] = SimpleQueue()
        answers: list[SimpleQueue[Answer]] = [SimpleQueue() for _ in parents]
        for rank, number in enumerate(self._homes(parents)):
            share = tuple(shares[rank]) if rank < len(shares) else ()
            process = self._processes[number]
            process.give(iteration, rank, parents[rank], history, share, answers[rank], forms)
        for _ in filter(None, shares):
            self._forms |= _next(forms, checkpoint).forms
        return answers

    def _homes(self, parents: Sequence[Trial]) -> list[int]:
        """The number of each parent's process: all have the same to do, give or take one."""
        most = -(-len(parents) // self._wanted)
        given = [0] * self._wanted
        homes = []
        for parent in parents:
            home = self._home.get(parent.candidate.id)
            if home is None or given[home] == most:
                home = given.index(min(given))
                self._home[parent.candidate.id] = home
            given[home] += 1
            homes.append(home)
        return homes

    def _start(self) -> None:
        """Have all processes there are to be; those that ended while idle are replaced."""
        for number, process in enumerate(self._processes):
            if process.has_ended():
                self._processes[number] = _Process(self._opening)
                process.kill()
        while len(self._processes) < self._wanted:
            self._processes.append(_Process(self._opening))

    def _stop(self) -> None:
        while self._processes:
            self._processes.pop().kill()


class _Process:
    """One process that proposes, and a thread that takes what it says off its hands."""

    def __init__(self, opening: bytes) -> None:
        own, other = socket.socketpair()
        with own, other:
            try:
                self._process = subprocess.Popen(
                    [*_COMMAND, str(other.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(other.fileno(),),
                    start_new_session=True,  # Ctrl-C is the search's to handle
                )
            except OSError as error:
                raise InternalError(
                    f"a process that proposes candidates cannot be started ({error.strerror}): "
                    "free memory or processes, or use fewer workers."
                ) from error
            self._connection = Connection(own.detach())
        self._known: tuple[Trial, ...] = ()
        self._lock = Lock()
        self._ended: InternalError | None = None
        self._answers: dict[int, SimpleQueue[Answer]] = {}
        self._forms: SimpleQueue[Forms | TilewrightError] = SimpleQueue()
        with contextlib.suppress(OSError):
            self._connection.send_bytes(opening)
        self._reader = Thread(target=self._read, name="propose", daemon=True)
        self._reader.start()

    def has_ended(self) -> bool:
        """Whether it does nothing any more."""
        return self._ended is not None

    def give(
        self,
        iteration: int,
        rank: int,
        parent: Trial,
        history: History,
        unformed: tuple[Candidate, ...],
        answers: SimpleQueue[Answer],
        forms: SimpleQueue[Forms | TilewrightError],
    ) -> None:
        """Have it propose for a parent once it is done with those given before."""
        trials = tuple(history)
        known = len(self._known) if trials[: len(self._known)] == self._known else 0
        family = Family(iteration, rank, trials.index(parent), known, trials[known:], unformed)
        with self._lock:
            self._known, self._forms, self._answers[rank] = trials, forms, answers
            if self._ended is not None:
                self._tell_the_end(self._ended)
        # One that ends now is noticed where its answers are waited for.
        with contextlib.suppress(OSError):
            self._connection.send(family)

    def kill(self) -> None:
        """End it and release everything."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._connection.close()

    def _read(self) -> None:
        try:
            while True:
                rank, message = self._connection.recv()
                if isinstance(message, Forms | TilewrightError):
                    self._forms.put(message)
                if not isinstance(message, Forms):
                    self._answers[rank].put(message)
        except (EOFError, OSError):
            pass
        except Exception:  # a plug-in's record that can be sent but not received
            self._process.kill()
            raise
        finally:
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else "has ended"
            lack = ", which the system does when memory runs out" if status == -SIGKILL else ""
            ended = InternalError(
                f"a process that proposes candidates {how}{lack}: run this again, "
                "with fewer workers where memory is short."
            )
            with self._lock:
                self._ended = ended
                self._tell_the_end(ended)

    def _tell_the_end(self, ended: InternalError) -> None:
        self._forms.put(ended)
        for answers in self._answers.values():
            answers.put(ended)


def _next(queue: SimpleQueue[T | TilewrightError], checkpoint: Callable[[], None]) -> T:
    """What comes next; an error is raised, and the checkpoint may end the waiting for it."""
    message = awaited(queue, checkpoint)
    if isinstance(message, TilewrightError):
        raise message
    return message
