"""Selects the machines of a cluster that take part in a run, and gives the reasons why others do
not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from urllib.parse import urlsplit

from tilewright.cluster.connection import Connection, WorkerInfo
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.settings import AGAIN, unavailable

MOST_ASKED = 64
"""Number of workers from which the scheduler chooses, because its time per message grows with this
number.
"""


class Hosts:
    """The workers that can take part in a run.

    Args:
        connection: the connection, which lists the workers.
        needs: the names that a worker must offer, the resource first.
        shown: the name of the scheduler in messages.
        repeats: whether outcomes are verified on a second host, which is not the case if tilewright
        started all workers itself. stays: whether everything is evaluated on one host, because
        measurements of two hosts are not comparable. home: the host on which the run began, if it
        has begun. on_home: called with the host when it has been chosen.
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
        self.shown = shown
        self._repeats = repeats and not stays
        self.stays = stays
        # Whether workers that offer what is needed exist on hosts that do not take part.
        self._names_hosts = stays
        self._home = home
        self._on_home = on_home
        self._left_out: dict[str, str] = {}
        self._seen: tuple[WorkerInfo, ...] | None = None  # those for which the following is true
        self._offer = list[WorkerInfo]()
        self._fit = list[WorkerInfo]()
        self._host_of = dict[str, str]()
        self._names = frozenset[str]()
        self._threads = 0
        self.needs: Mapping[str, float] = dict.fromkeys(needs, 1)

    def fitting(self) -> list[WorkerInfo]:
        """The workers that may take part."""
        self._look()
        return self._fit

    def _look(self) -> None:
        """Update the workers that take part, but only if the list of workers has changed, because
        there may be thousands.
        """
        workers = self._connection.workers
        if workers is self._seen:
            return
        self._seen = workers
        self._host_of = {worker.address: worker.host for worker in workers}
        self._offer = [w for w in workers if w.offers.issuperset(self.needs)]
        found = [w for w in self._offer if w.host not in self._left_out]
        if self.stays and self._home is None and found:
            # the host with most workers; among equal ones, always the same
            self._home = min(
                found, key=lambda w: (-sum(w.host == o.host for o in found), w.host)
            ).host
            self._on_home(self._home)
        self._fit = self._chosen(found)
        self._threads = sum(worker.threads for worker in self._fit)
        names = frozenset(name for w in self._fit for name in (w.host, w.address))
        if names != self._names:
            self._names = names

    def _chosen(self, found: list[WorkerInfo]) -> list[WorkerInfo]:
        """Those of the suitable workers that may take part."""
        return [w for w in found if not self.stays or w.host == self._home]

    @property
    def home(self) -> str | None:
        """The host on which everything is evaluated, if there is one and it has been chosen."""
        return self._home if self.stays else None

    def among(self, jobs: Sequence[Job], slow_worker: str = "") -> tuple[str, ...] | None:
        """The hosts or workers that may evaluate these requests; None for any suitable one, and
        empty if there is none.

        Hosts that have answered are excluded. If there are others, hosts on which workers ended
        with these requests or answers were lost are avoided, as is the host of `slow_worker`, which
        has the requests already. On a single host, other workers than `slow_worker` may answer.
        """
        heard_on = {host for job in jobs for host in job.heard_on}
        avoided = {host for job in jobs for host in (*job.ended_on, *job.unheard_on)}
        if not (heard_on or avoided or slow_worker or self._left_out or self._names_hosts):
            return None
        hosts = {worker.host for worker in self.fitting()} - heard_on
        if others := hosts - avoided - {self.of_worker(slow_worker)}:
            return tuple(sorted(others))
        if not slow_worker:
            return tuple(sorted(hosts))
        fitting = (worker for worker in self.fitting() if worker.host in hosts)
        return tuple(worker.address for worker in fitting if worker.address != slow_worker)

    def asked(
        self, among: tuple[str, ...] | None
    ) -> tuple[Mapping[str, float], tuple[str, ...] | None]:
        """The resources that the scheduler compares for a few messages, and the only workers that
        may receive these messages.

        If there are many workers, a few of them are chosen at random, by their addresses. Their
        resources have already been compared here, because the scheduler would examine all workers
        for each message.
        """
        fitting = self.fitting()
        if len(fitting) <= MOST_ASKED:
            return self.needs, among
        if among is not None:
            names = set(among)
            fitting = [worker for worker in fitting if names & {worker.host, worker.address}]
        few = random.sample(fitting, min(MOST_ASKED, len(fitting)))
        return {}, tuple(worker.address for worker in few)

    @property
    def names(self) -> frozenset[str]:
        """The hosts and addresses of the suitable workers; the same object as long as they do not
        change.
        """
        self._look()
        return self._names

    @property
    def threads(self) -> int:
        """The total number of threads of all suitable workers."""
        self._look()
        return self._threads

    def has_others(self, heard_on: Collection[str]) -> bool:
        """Whether there is a suitable host besides these."""
        return self._repeats and bool({w.host for w in self.fitting()} - set(heard_on))

    def of_worker(self, address: str) -> str:
        """The host of a worker, or "" if `address` is "".

        A worker that has just connected is not listed yet. Its host is then part of its address,
        so it cannot pass for another host.
        """
        self._look()
        return self._host_of.get(address) or urlsplit(address).hostname or ""

    def leave_out(self, host: str, why: str) -> None:
        """Exclude a host from the run."""
        if host:
            self._left_out.setdefault(host, why)
            self._seen = None

    @property
    def all_left_out(self) -> bool:
        """Whether all present hosts are excluded, so that waiting would not help."""
        offering = self._offering()
        return bool(offering) and all(w.host in self._left_out for w in offering)

    def why_alone(self) -> str:
        """The message for the user if no host can evaluate."""
        workers, resource = self._connection.workers, next(iter(self.needs))
        start = f"start some with `tilewright cluster worker {self.shown}`"
        if self._connection.is_lost:
            return unavailable(self.shown)
        if self._left_out:
            host, why = next(iter(self._left_out.items()))
            return f"the worker on {host} {why}. Correct this problem, and {AGAIN}."
        if not workers:
            return f"the scheduler at {self.shown} has no workers: {start}, and {AGAIN}."
        if not any(resource in worker.offers for worker in workers):
            hosts = ", ".join(sorted({worker.host for worker in workers}))
            return (
                f"no worker of {self.shown} offers {resource} (there are workers on {hosts}): "
                f"{start} on a machine that has it, and {AGAIN}."
            )
        if self._offering():
            return (
                f"this run is measured on {self._home}, which has no workers now: {start} there, "
                f"and {AGAIN}; latencies of different machines are not compared."
            )
        return (
            f"every worker of {self.shown} with {resource} has different versions than this run: "
            f"`tilewright cluster status {self.shown}` lists them. Install the same versions, and "
            f"{AGAIN}."
        )

    def _offering(self) -> list[WorkerInfo]:
        self._look()
        return self._offer
