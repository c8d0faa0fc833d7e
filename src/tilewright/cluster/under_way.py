"""The messages of a search that are under way, and which of them are copies of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.cluster.opinions import Job


class UnderWay:
    """Jobs by the keys of the messages that they were sent with.

    The jobs of a message may be under way twice: under its key and under that of a copy.
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
    def requests(self) -> int:
        """How many are under way, those of copies too."""
        return sum(map(len, self._sent.values()))

    def messages(self) -> list[tuple[str, Sequence[Job]]]:
        """By key, the oldest first."""
        return list(self._sent.items())

    def add(self, keys: Sequence[str], parts: Sequence[Sequence[Job]]) -> None:
        """Messages that were sent just now."""
        self._sent.update(zip(keys, parts, strict=True))

    def note_copy(self, key: str, copy: str) -> None:
        """Both keys are of the same jobs."""
        self._copies[key], self._copies[copy] = copy, key

    def copy_of(self, key: str) -> str | None:
        """The other key of the same jobs, if there is one."""
        return self._copies.get(key)

    def take(self, key: str) -> Sequence[Job]:
        """The jobs of a key that is no longer under way; of its copy nothing is changed."""
        copy = self._copies.pop(key, None)
        if copy is not None:
            del self._copies[copy]
        return self._sent.pop(key)

    def clear(self) -> None:
        """Nothing is waited for any more."""
        self._sent.clear()
        self._copies.clear()


def by_message(jobs: Sequence[Job], size: int) -> Iterator[list[Job]]:
    """At most `size` a message; one that was lost or failed goes alone: it may end its workers."""
    part = list[Job]()
    for job in jobs:
        if job.losses or job.breaks:
            yield [job]
            continue
        part.append(job)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part
