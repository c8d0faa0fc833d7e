"""The messages of a search that are in progress, and the copies among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.cluster.host_outcomes import Job


class UnderWay:
    """Jobs by the keys of their messages.

    The jobs of a message may be in progress twice, under its key and under the key of a copy.
    """

    def __init__(self) -> None:
        self._sent: dict[str, Sequence[Job]] = {}
        self._copies: dict[str, str] = {}  # in both directions

    def __contains__(self, key: str) -> bool:
        return key in self._sent

    def __iter__(self) -> Iterator[str]:
        return iter(self._sent)

    def __bool__(self) -> bool:
        return bool(self._sent)

    @property
    def count(self) -> int:
        """The number of messages in progress, including copies."""
        return len(self._sent)

    @property
    def requests(self) -> int:
        """The number of requests in progress, including those of copies."""
        return sum(map(len, self._sent.values()))

    def messages(self) -> list[tuple[str, Sequence[Job]]]:
        """The messages by key, the oldest first."""
        return list(self._sent.items())

    def add(self, keys: Sequence[str], parts: Sequence[Sequence[Job]]) -> None:
        """Add messages that have just been sent."""
        self._sent.update(zip(keys, parts, strict=True))

    def note_copy(self, key: str, copy: str) -> None:
        """Record that both keys have the same jobs."""
        self._copies[key], self._copies[copy] = copy, key

    def copy_of(self, key: str) -> str | None:
        """The other key of the same jobs, if there is one."""
        return self._copies.get(key)

    def take(self, key: str) -> Sequence[Job]:
        """Remove a key that is no longer in progress, and return its jobs. Its copy is not
        changed.
        """
        copy = self._copies.pop(key, None)
        if copy is not None:
            del self._copies[copy]
        return self._sent.pop(key)

    def clear(self) -> None:
        """Remove all messages."""
        self._sent.clear()
        self._copies.clear()


def apart(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of one message. A job that was lost or has failed forms its own message, because it
    may end its workers.
    """
    alone = [job for job in jobs if job.losses or job.breaks]
    together = [job for job in jobs if not (job.losses or job.breaks)]
    return [[job] for job in alone] + ([together] if together else [])
