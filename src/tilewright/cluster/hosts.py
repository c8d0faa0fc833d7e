"""Which machines of a cluster take part in a run, and why others do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.cluster.connection import Connection, WorkerInfo

MOST_ASKED = 64
"""Workers among which the scheduler chooses: its time for a message grows with their number."""


class Hosts:
    """The workers that fit a run.

    Args:
        connection: knows which workers there are.
        needs: what a worker must offer, the resource first.
        shown: what sentences call the scheduler.
        repeats: whether outcomes are heard from a second host: not where all workers are ours.
        stays: whether all is evaluated on one host, since measurements of two are not compared.
        home: the host where it began, if it did.
        on_home: told of the host once it is chosen.
    """

    def __init__(
        self,
        connection: Connection,
        needs: Sequence[str],
        shown: str,
        *,
        repeats: bool = False,
        stays: bool = False,
        home: str | None = None,
        on_home: Callable[[str], None] = lambda host: None,
    ) -> None:
        self._connection = connection
        self._shown = shown
        self._repeats = repeats and not stays
        self.stays = stays
        self._home = home
        self._on_home = on_home
        self._left_out: dict[str, str] = {}
        self._seen: tuple[WorkerInfo, ...] | None = None  # those that what follows is true of
        self._offer = list[WorkerInfo]()
        self._fit = list[WorkerInfo]()
        self._host_of = dict[str, str]()
        self._names = frozenset[str]()
        self._threads = 0
        self.needs: Mapping[str, float] = dict.fromkeys(needs, 1)

    def fitting(self) -> list[WorkerInfo]:
        """Workers that may take part."""
        self._look()
        return self._fit

    def _look(self) -> None:
        """Find out who takes part where that may have changed: there may be thousands."""
        workers = self._connection.workers
        if workers is self._seen:
            return
        self._seen = workers
        self._host_of = {worker.address: worker.host for worker in workers}
        self._offer = [w for w in workers if w.offers.issuperset(self.needs)]
        found = [w for w in self._offer if w.host not in self._left_out]
        if self.stays and self._home is None and found:
            # the one with most workers; of equal ones always the same
            self._home = min(
                found, key=lambda w: (-sum(w.host == o.host for o in found), w.host)
            ).host
            self._on_home(self._home)
        self._fit = [w for w in found if not self.stays or w.host == self._home]
        self._threads = sum(worker.threads for worker in self._fit)
        names = frozenset(name for w in self._fit for name in (w.host, w.address))
        if names != self._names:
            self._names = names

    def among(self, heard_on: Collection[str]) -> tuple[str, ...] | None:
        """The hosts for a request that these have answered; None for any that offer enough."""
        if not (heard_on or self._left_out or self.stays):
            return None
        return tuple(sorted({w.host for w in self.fitting()} - set(heard_on)))

    def asked(
        self, among: tuple[str, ...] | None
    ) -> tuple[Mapping[str, float], tuple[str, ...] | None]:
        """What the scheduler is to compare for a few messages, and the only ones that may get them.

        Where there are many workers those are a few by chance, by their addresses. What they offer
        has been seen here: for that the scheduler would go through all workers with each message.
        """
        fitting = self.fitting()
        if len(fitting) <= MOST_ASKED:
            return self.needs, among
        if among is not None:
            hosts = set(among)
            fitting = [worker for worker in fitting if worker.host in hosts]
        few = random.sample(fitting, min(MOST_ASKED, len(fitting)))
        return {}, tuple(worker.address for worker in few)

    @property
    def names(self) -> frozenset[str]:
        """Hosts and addresses of the fitting workers; the same object while they are the same."""
        self._look()
        return self._names

    @property
    def threads(self) -> int:
        """Of all fitting workers."""
        self._look()
        return self._threads

    def has_others(self, heard_on: Collection[str]) -> bool:
        """Whether a host could be asked that is none of these."""
        return self._repeats and bool({w.host for w in self.fitting()} - set(heard_on))

    def of_worker(self, address: str) -> str:
        """The host of a worker, as the scheduler knows it."""
        self._look()
        return self._host_of.get(address, "")

    def leave_out(self, host: str, why: str) -> None:
        """Let a host take no further part."""
        if host:
            self._left_out.setdefault(host, why)
            self._seen = None

    @property
    def all_left_out(self) -> bool:
        """Whether nobody is there but those that were left out: waiting would not help."""
        offering = self._offering()
        return bool(offering) and all(w.host in self._left_out for w in offering)

    def why_alone(self) -> str:
        """What the user is told when nobody can evaluate."""
        again = "run the same command again, which continues the run"
        workers, resource = self._connection.workers, next(iter(self.needs))
        start = f"start some with `tilewright cluster worker {self._shown}`"
        if self._connection.is_lost:
            return (
                f"the scheduler at {self._shown} no longer answers. Start it again, then {again}."
            )
        if self._left_out:
            host, why = next(iter(self._left_out.items()))
            return f"the worker on {host} {why}. Correct this problem, and {again}."
        if not workers:
            return f"the scheduler at {self._shown} has no workers: {start}, and {again}."
        if not any(resource in worker.offers for worker in workers):
            hosts = ", ".join(sorted({worker.host for worker in workers}))
            return (
                f"no worker of {self._shown} offers {resource} (there are workers on {hosts}): "
                f"{start} on a machine that has it, and {again}."
            )
        if self._offering():
            return (
                f"this run is measured on {self._home}, which has no workers now: {start} there, "
                f"and {again}; latencies of different machines are not compared."
            )
        return (
            f"every worker of {self._shown} with {resource} has different versions than this run: "
            f"`tilewright cluster status {self._shown}` lists them. Install the same versions, and "
            f"{again}."
        )

    def _offering(self) -> list[WorkerInfo]:
        self._look()
        return self._offer
