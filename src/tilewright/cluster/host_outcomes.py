"""A request that is evaluated on a cluster, with the outcomes from different hosts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.core.records import Outcome
from tilewright.evaluation.batch import Pending


@dataclass(eq=False, slots=True)
class Job:
    """A request that waits, is being evaluated, or is verified on further hosts.

    `losses` is the number of times that its workers ended while they evaluated it, and `ended_on`
    are the hosts of the last of these workers. `unheard` is the number of times that its answer was
    lost for another reason, and `unheard_on` are the hosts of these answers. `breaks` is the number
    of workers that could not evaluate it. `among` are the hosts or workers to which it was sent
    (None for any), and `sent_s` is the time of sending on the monotonic clock.
    """

    pending: Pending
    is_described: bool = False
    losses: int = 0
    ended_on: tuple[str, ...] = ()
    unheard: int = 0
    unheard_on: tuple[str, ...] = ()
    breaks: int = 0
    took_s: float = 0.0
    among: tuple[str, ...] | None = None
    sent_s: float = 0.0
    heard: list[tuple[str, Outcome]] = field(default_factory=list)

    @property
    def heard_on(self) -> tuple[str, ...]:
        """The hosts that have answered."""
        return tuple(host for host, _ in self.heard)

    @property
    def first(self) -> Outcome:
        """The first outcome."""
        return self.heard[0][1]

    def hear(self, host: str, outcome: Outcome, took_s: float) -> None:
        """Add an outcome."""
        self.took_s = self.took_s or took_s
        self.heard.append((host, outcome))

    def decided(self) -> Outcome | None:
        """The outcome on which two hosts agree, or the only outcome; None if they differ."""
        if len(self.heard) == 1:
            return self.first
        for number, (_, outcome) in enumerate(self.heard):
            if any(_same(outcome, other) for _, other in self.heard[number + 1 :]):
                return outcome
        return None

    def alone(self) -> list[str]:
        """The hosts whose outcome differs from the decided one."""
        decided = self.decided()
        return [host for host, outcome in self.heard if decided and not _same(outcome, decided)]

    def difference(self) -> str:
        """The different outcomes in a few words."""
        return ", then ".join(_in_words(outcome) for _, outcome in self.heard)


def _same(one: Outcome, other: Outcome) -> bool:
    """Whether two evaluations agree; machines may contain candidates in different ways."""
    return replace(one, sandbox="") == replace(other, sandbox="")


def _in_words(outcome: Outcome) -> str:
    latency = getattr(outcome, "latency", None)
    return f"{latency:g}" if latency is not None else str(getattr(outcome, "kind", ""))
