"""Evaluates the kernels of a measured run again on another machine than the one that measures.

The second machine verifies that a kernel is correct. If it has the same model of device, it also
verifies the latency. Other work may disturb an evaluation there, so a kernel is evaluated there
twice before a slower latency or a crash refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Protocol

from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.other_hosts import OtherHosts
from tilewright.core.records import EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Checkpoint, More
from tilewright.evaluation.screening import MOST_NOISE, SAME_LATENCY

ASK_EVERY_S = 0.1
"""Maximum number of seconds between two looks for a kernel to verify."""
TRIES = 2
"""Number of evaluations on the second machine after which a slower latency, or a failure that may
have another cause than the kernel, refutes the first evaluation.
"""
NO_LIMIT = 1e18
"""A latency that no kernel exceeds. A request with a limit is measured with the effort of a search.
"""
DEPENDS_ON_MODEL = frozenset({"illegal_instruction", "untested_condition", "timeout", "crash"})
"""Kinds of failure in a check that a correct kernel may have on another model of the device."""
MAY_BE_CHANCE = frozenset({"illegal_instruction", "crash"})
"""Kinds of failure that may have another cause than the kernel, such as too little memory."""

ALONE = (
    "no other machine of the cluster can evaluate the kernels of this run, so no second machine "
    "verifies them; the winner is confirmed on this machine"
)
ONLY_RESULTS = (
    "the other machines of the cluster have another model of the device, so they verify that "
    "kernels are correct, but not their latencies"
)


class Evaluates(Protocol):
    """The part of an executor that is used here."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> object:
        """Evaluate the requests that `more` returns, until it returns None."""
        ...


@dataclass(slots=True)
class _Asked:
    """A job whose outcome `first` on the host `home` is verified, and the evaluations so far."""

    job: Job
    first: Measured
    home: str
    tries: int = 0


class _StoppedError(Exception):
    """Ends the evaluations because the batch has ended."""


class SecondMachine:
    """Verifies measured outcomes in a thread of its own.

    Args:
        create_executor: constructs the executor on the other machines, which calls the given
        function with every job and its outcome.
        hosts: the other machines.
        on_note: called, from any thread, with a sentence for the user, at most once for each.
        on_close: closes the executor.

    If no other machine can verify an outcome, it is used as it is.
    """

    def __init__(
        self,
        create_executor: Callable[[Callable[[Job, Outcome], None]], Evaluates],
        hosts: OtherHosts,
        on_note: Callable[[str], None],
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._executor = create_executor(self._hear)
        self._hosts = hosts
        self._on_note = on_note
        self.close = on_close
        self._told: set[str] = set()
        self._is_lost = False
        self._begin()

    def _begin(self) -> None:
        self._asked = SimpleQueue[_Asked]()
        self._decided = SimpleQueue[tuple[Job, Outcome]]()
        self._given: dict[int, _Asked] = {}
        self._positions = 0
        self._open = 0
        self._stopped = Event()
        self._thread: Thread | None = None

    def verify(self, job: Job, outcome: Measured) -> None:
        """Begin to verify an outcome; `decided` returns it later."""
        self._open += 1
        self._asked.put(_Asked(job, outcome, job.heard_on[0]))
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether `decided` has not yet returned all outcomes."""
        return self._open > 0

    def decided(self, wait_s: float) -> Iterator[tuple[Job, Outcome]]:
        """Jobs with their outcomes, or with why these are not used. Waits up to `wait_s` seconds
        for the first one, if any are being verified.
        """
        while self._open:
            try:
                found = self._decided.get(timeout=wait_s) if wait_s else self._decided.get_nowait()
            except Empty:
                return
            wait_s = 0.0
            self._open -= 1
            yield found

    def stop(self) -> None:
        """End all evaluations of a batch."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._begin()

    def _run(self) -> None:
        try:
            if not self._is_lost:
                self._executor.evaluate([], None, self._more, self._checkpoint)
        except _StoppedError:
            return
        except Exception as error:  # the run goes on with what its own machine measures
            self._is_lost = True
            self._tell(f"until this search ends, no second machine verifies its kernels: {error}")
        for asked in self._given.values():
            self._decided.put((asked.job, asked.first))
        while not self._stopped.is_set():
            for asked in self._next():
                self._decided.put((asked.job, asked.first))

    def _checkpoint(self) -> None:
        if self._stopped.is_set():
            raise _StoppedError

    def _next(self) -> list[_Asked]:
        try:
            return [self._asked.get(timeout=ASK_EVERY_S)]
        except Empty:
            return []

    def _more(self) -> Sequence[EvaluationRequest]:
        requests = []
        for asked in self._next():
            if not self._hosts.threads:
                self._tell(ALONE)
                self._decided.put((asked.job, asked.first))
                continue
            if not self._hosts.have_same_model:
                self._tell(ONLY_RESULTS)
            self._given[self._positions] = asked
            self._positions += 1
            requests.append(replace(asked.job.pending.request, limit_latency=NO_LIMIT))
        return requests

    def _hear(self, job: Job, outcome: Outcome) -> None:
        host = next(iter(job.heard_on), "another machine")
        for position in job.pending.positions:
            asked = self._given.pop(position)
            asked.tries += 1
            refuted = refutation(asked.first, asked.home, outcome, host, self._hosts.is_same(host))
            may_pass = isinstance(outcome, Measured) or outcome.kind in MAY_BE_CHANCE
            if refuted is not None and may_pass and asked.tries < TRIES:
                self._asked.put(asked)
            else:
                self._decided.put((asked.job, refuted or asked.first))

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._on_note(sentence)


def refutation(
    first: Measured, home: str, again: Outcome, host: str, same_model: bool
) -> Failed | None:
    """Why an evaluation on the machine `host` refutes the one on `home`, or None if it does not.

    Latencies are compared only if both have the same model of the device. The second one refutes
    the first if it is slower and their confidence intervals do not overlap. The intervals are
    extended by the difference that two evaluations of one kernel may have.
    """
    number = f"{first.latency:g} {first.unit} on {home}"
    if isinstance(again, Failed):
        if again.kind == "timeout" or (again.stage == "measure" and not same_model):
            return None
        is_about_model = again.stage != "check" or again.kind in DEPENDS_ON_MODEL
        if is_about_model and not same_model:
            return None
        log = (
            f"{number} was not confirmed by a second machine. On {host}, "
            f"the kernel {again.words}: {again.log}"
        )
        return Failed("measure", "unconfirmed", log, again.line, None, again.sandbox, again.kind)
    (_, high), (low, _) = _limits(first), _limits(again)
    if not same_model or low <= high * (1 + SAME_LATENCY):
        return None
    log = (
        f"{number} (interval {_in_words(first)}) was not confirmed by a second machine with the "
        f"same model of device. On {host}, the kernel takes {again.latency:g} {again.unit} "
        f"(interval {_in_words(again)})."
    )
    return Failed("measure", "unconfirmed", log, sandbox=again.sandbox)


def _limits(measured: Measured) -> tuple[float, float]:
    """The ends of the latency's interval. A machine cannot make it wider than noise may be."""
    low, high = measured.interval
    latency = measured.latency
    return max(low, latency * (1 - MOST_NOISE)), min(high, latency * (1 + MOST_NOISE))


def _in_words(measured: Measured) -> str:
    return "{:g} to {:g}".format(*_limits(measured))
