"""The machines of a cluster that verify what another machine has measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.cluster.connection import Connection, WorkerInfo
from tilewright.cluster.hosts import Hosts


class OtherHosts(Hosts):
    """The workers on other machines than the one on which a run is measured.

    If some of them have the same model of the device, only these take part.

    Args:
        needs: the names that a worker must offer to evaluate kernels on any model.
        same_model: the names that a worker offers if it has the same model.
        home: the host that measures, or None if it has not been chosen.
    """

    def __init__(
        self,
        connection: Connection,
        needs: Sequence[str],
        shown: str,
        *,
        same_model: Sequence[str],
        home: Callable[[], str | None],
    ) -> None:
        super().__init__(connection, needs, shown)
        self._same_model = frozenset(same_model)
        self._measuring = home
        self._without: str | None = None
        self._same = frozenset[str]()
        self._names_hosts = True

    @property
    def have_same_model(self) -> bool:
        """Whether the machines that take part have the same model of the device."""
        self._look()
        return bool(self._same)

    def is_same(self, host: str) -> bool:
        """Whether this machine takes part and has the same model of the device."""
        self._look()
        return host in self._same

    def why_alone(self) -> str:
        """The message for the user if no other machine can verify anything."""
        if self._left_out or self._connection.is_lost:
            return super().why_alone()
        return f"no other machine of {self.shown} has workers that can evaluate them now."

    def _look(self) -> None:
        if self._measuring() != self._without:
            self._without, self._seen = self._measuring(), None
        super()._look()

    def _chosen(self, found: list[WorkerInfo]) -> list[WorkerInfo]:
        others = [w for w in found if self._without is not None and w.host != self._without]
        same = [w for w in others if w.offers >= self._same_model]
        self._same = frozenset(worker.host for worker in same)
        return same or others

    def _offering(self) -> list[WorkerInfo]:
        return [worker for worker in super()._offering() if worker.host != self._without]
