"""A request on its way through a cluster, and what hosts said of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.core.records import Outcome
from tilewright.evaluation.batch import Pending


@dataclass(eq=False, slots=True)
class Job:
    """A request that waits, is under way or is heard from further hosts.

    `losses` counts workers that ended with it, `breaks` those that could not do their work; `among`
    are the hosts or workers that it was sent to, None for any,
    and `sent_s` when, by the monotonic clock.
    """

    pending: Pending
    is_described: bool = False
    losses: int = 0
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
        """What was heard first."""
        return self.heard[0][1]

    def hear(self, host: str, outcome: Outcome, took_s: float) -> None:
        """One more answer."""
        self.took_s = self.took_s or took_s
        self.heard.append((host, outcome))

    def decided(self) -> Outcome | None:
        """What two hosts agree on, or the only one says; None where they differ."""
        if len(self.heard) == 1:
            return self.first
        for number, (_, outcome) in enumerate(self.heard):
            if any(_same(outcome, other) for _, other in self.heard[number + 1 :]):
                return outcome
        return None

    def alone(self) -> list[str]:
        """The hosts that said something else than what is decided."""
        decided = self.decided()
        return [host for host, outcome in self.heard if decided and not _same(outcome, decided)]

    def difference(self) -> str:
        """What was said, in a few words."""
        return ", then ".join(_in_words(outcome) for _, outcome in self.heard)


def _same(one: Outcome, other: Outcome) -> bool:
    """Whether two evaluations agree; machines may contain candidates in different ways."""
    return replace(one, sandbox="") == replace(other, sandbox="")


def _in_words(outcome: Outcome) -> str:
    latency = getattr(outcome, "latency", None)
    return f"{latency:g}" if latency is not None else str(getattr(outcome, "kind", ""))
