"""What follows from the answers to messages and from their loss: outcomes, further evaluations, or
the exclusion of a host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.cluster.arrivals import Answered, Lost
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.message_sizes import Pace
from tilewright.cluster.messages import (
    Evaluated,
    GarbageError,
    Missing,
    RaisedThere,
    Refused,
    TaskDescription,
    Unwanted,
    read_answer,
)
from tilewright.cluster.settings import AGAIN
from tilewright.core.errors import ClusterError, DiskFullError, InternalError, TilewrightError
from tilewright.core.records import Failed, Measured, Outcome
from tilewright.evaluation.replies import is_tilewright_error, raised

MOST_LOSSES = 4
"""Number of times that a request is sent again after its worker ended, before the outcome is a
crash.
"""
MOST_BREAKS = 4
"""Number of times that a request is sent again after workers that could not evaluate it."""
MOST_UNHEARD = 20
"""Number of times that a request is sent again after its answer was lost although its worker had
not ended, for instance because the scheduler ended.
"""


class Verdicts:
    """Decides on the requests of one executor.

    Args:
        description: the description of the task.
        hosts: the workers that take part.
        pace: receives the durations of evaluations.
        again: called with requests that have to be evaluated again.
        finish: called with a request and its outcome.

    A latency with which a candidate may win is evaluated again on another host, if there is one,
    because no single worker is trusted. If two hosts disagree, a third host decides, and the host
    whose result deviates is excluded.
    """

    def __init__(
        self,
        description: TaskDescription,
        hosts: Hosts,
        pace: Pace,
        *,
        again: Callable[[Sequence[Job]], None],
        finish: Callable[[Job, Outcome], None],
    ) -> None:
        self._description = description
        self._hosts = hosts
        self._pace = pace
        self._again = again
        self._finish = finish

    def lose(self, job: Job, lost: Lost) -> None:
        """Evaluate a request again whose message will not be answered. If this happens too often,
        hosts that lost it are excluded if another host has answered it.
        """
        host = self._hosts.of_worker(lost.worker)
        if lost.died:
            job.losses += 1
            job.ended_on += (host,) if host else ()
        else:
            job.unheard += 1
            job.unheard_on += (host,) if host else ()
        if job.losses <= MOST_LOSSES and job.unheard <= MOST_UNHEARD:
            self._again([job])
        elif job.losses > MOST_LOSSES:
            self._on_losses(job)
        else:
            self._on_lost_answers(job)

    def _on_losses(self, job: Job) -> None:
        if self._leave_out(job, job.ended_on, "ends when it evaluates"):
            job.losses, job.ended_on = 0, ()
            self._again([job])
            return
        log = (
            "every worker that evaluated this kernel ended: the kernel may end any process that "
            "evaluates it."
        )
        self._finish(job, Failed("check", "crash", log))

    def _on_lost_answers(self, job: Job) -> None:
        if self._leave_out(job, job.unheard_on, "has answers that the scheduler cannot fetch"):
            job.unheard, job.unheard_on = 0, ()
            self._again([job])
            return
        hosts = sorted(set(job.unheard_on))
        where = f" from {', '.join(hosts)}" if hosts else ""
        raise ClusterError(
            f"the scheduler at {self._hosts.shown} lost the results of the same kernel{where} "
            f"{job.unheard} times. Find out whether it can connect to its workers; then "
            f"{AGAIN}."
        )

    def _leave_out(self, job: Job, hosts: Sequence[str], why: str) -> bool:
        """Exclude those of these hosts that never answered a request which another has answered."""
        lost = sorted(set(hosts).difference(job.heard_on)) if job.heard else []
        for host in lost:
            self._hosts.leave_out(host, why)
        return bool(lost)

    def hear(self, jobs: Sequence[Job], answered: Answered) -> bool:
        """Take the answer to the message of these requests, and return whether it contains their
        outcomes.
        """
        host = self._hosts.of_worker(answered.worker)
        try:
            answer = read_answer(
                answered.message, self._description, [job.pending.request for job in jobs]
            )
        except GarbageError as error:
            self._hosts.leave_out(host, f"sends messages that are not answers ({error})")
            self._again_or_raise(jobs, host, f"sends messages that are not answers ({error})")
            return False
        match answer:
            case Evaluated(outcomes):
                for job, (outcome, took_s) in zip(jobs, outcomes, strict=True):
                    self._pace.note_evaluation(took_s)
                    job.hear(host, outcome, took_s)
                    self.decide(job)
            case Missing() if not jobs[0].is_described:
                jobs[0].is_described = True
                self._again(jobs)
            case Missing():
                self._hosts.leave_out(host, "asks again for a task that was sent to it")
                self._again_or_raise(jobs, host, "does not store the task")
            case Refused(differences):
                name, (wanted, there) = next(iter(differences.items()))
                self._hosts.leave_out(host, f"has {name} {there}, but this run needs {wanted}")
                self._again_or_raise(jobs, host, f"has a different {name}")
            case RaisedThere(reported):
                theirs = raised(reported)
                if isinstance(theirs, DiskFullError):
                    self._hosts.leave_out(host, f"has no space left on its disk ({theirs})")
                    self._again(jobs)
                elif not is_tilewright_error(reported) and not self._hosts.has_others((host,)):
                    self._again_or_raise(jobs, host, f"fails ({reported['type']}: {theirs})")
                elif self._is_doubted(theirs, host):
                    self._hosts.leave_out(host, f"reports an error ({theirs})")
                    self._again_or_raise(jobs, host, f"reports an error ({theirs})")
                else:
                    raise theirs
            case Unwanted():  # it was regarded as lost, but the answer arrived later
                self._again_or_raise(jobs, host, "rejects evaluations that are still needed")
        return isinstance(answer, Evaluated)

    def _is_doubted(self, error: TilewrightError, host: str) -> bool:
        """Whether an error that a worker reports may be caused by the worker and not by the task. A
        run does not end because of an internal error that another machine reports, or as long as
        another machine can evaluate the request. Workers that tilewright started itself have no
        host.
        """
        return bool(host) and (isinstance(error, InternalError) or self._hosts.has_others((host,)))

    def _again_or_raise(self, jobs: Sequence[Job], host: str, problem: str) -> None:
        for job in jobs:
            job.breaks += 1
        if max(job.breaks for job in jobs) > MOST_BREAKS:
            raise ClusterError(
                f"the worker on {host or 'this machine'} {problem}. Correct this problem, or stop "
                f"the worker; then {AGAIN}."
            )
        self._again(jobs)

    def decide(self, job: Job) -> None:
        """Finish a request if enough hosts agree on its outcome. The outcome of a measured kernel,
        which may become the winner, is first verified on a second host.
        """
        others = self._hosts.has_others(job.heard_on)
        if len(job.heard) == 1 and isinstance(job.first, Measured) and others:
            self._again([job])
            return
        decided = job.decided()
        if decided is None:
            if others:
                self._again([job])
                return
            raise ClusterError(
                f"the workers on {' and '.join(job.heard_on)} disagree on a kernel "
                f"({job.difference()}): one of them is wrong, so find out which, stop it, and "
                f"{AGAIN}."
            )
        for host in job.alone():
            self._hosts.leave_out(host, "gave a different outcome than two other workers")
        self._finish(job, decided)
