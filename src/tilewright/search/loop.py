"""The search loop: select parents, propose candidates, evaluate them.

A trial is appended as soon as all earlier trials of the batch have been appended, so the stored
history is always the beginning of the history of an uninterrupted run. Outcomes that arrive earlier
are kept in the executor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence

from tilewright.core.budget import Budget, Spent
from tilewright.core.records import Candidate, EvaluationRequest, History, Outcome, Trial
from tilewright.core.roles import Executor, SearchStrategy
from tilewright.search.events import (
    Evaluated,
    EvaluationStarted,
    IterationFinished,
    IterationStarted,
    OnEvent,
    Stopped,
)
from tilewright.search.near_bound import near_bound
from tilewright.search.parameter_iterations import values_only
from tilewright.search.proposing import Batches


class BudgetSpentError(Exception):
    """Ends a batch while it is proposed or evaluated. The search catches this exception."""

    def __init__(self, history: History | None = None) -> None:
        self.history = history


class Search:
    """One run's search.

    Args:
        strategy: chooses parents and says when to stop.
        batches: proposes the candidates of an iteration.
        executor: evaluates the candidates.
        append: stores one trial durably.
        iterations: T, which events report.
        budget: evaluations and wall-clock seconds, over all sessions of the run.
        wall_s: wall-clock seconds used so far, over all sessions of the run.
        on_event: called with every event.
        rounds: how often, in one iteration, authors may continue from the outcomes of their
        candidates. models_stop: returns the reason why models are no longer called (their budget is
        spent), or None. deliver: called often, to pass events of other threads to the listener in
        this thread. stop_within: the search ends when its best kernel is at most this share above
        its bound. closed: returns the ids of the kernels from which no more candidates are made
        from an iteration on.
    """

    def __init__(
        self,
        *,
        strategy: SearchStrategy,
        batches: Batches,
        executor: Executor,
        append: Callable[[Trial], None],
        iterations: int,
        budget: Budget,
        wall_s: Callable[[], float],
        on_event: OnEvent,
        rounds: int = 0,
        models_stop: Callable[[], str | None] = lambda: None,
        deliver: Callable[[], None] = lambda: None,
        stop_within: float = 0.0,
        closed: Callable[[int], Collection[str]] = lambda iteration: (),
    ) -> None:
        self._strategy = strategy
        self._batches = batches
        self._executor = executor
        self._append = append
        self._iterations = iterations
        self._budget = budget
        self._wall_s = wall_s
        self._on_event = on_event
        self._rounds = rounds
        self._models_stop = models_stop
        self._deliver = deliver
        self._stop_within = stop_within
        self._closed = closed

    def evaluate_start(self, start: Candidate, comparisons: int = 0) -> History:
        """Evaluate the starting kernel as trial 0, even if the budget is too small for it."""
        parts = iter([[EvaluationRequest(start, comparisons=comparisons)]])
        trials, _ = self._evaluate(0, parts, History(), Budget())
        return History(trials)

    def run(self, history: History) -> tuple[History, str]:
        """Search from a history that begins with the measured starting kernel.

        An iteration that an earlier session did not finish is proposed again from the history
        before it, and recorded candidates are not evaluated again. Returns the history at the end,
        and the reason why the search stopped.
        """
        iteration = max(1, history[-1].iteration)
        while True:
            history, reason = self.step(iteration, history)
            if reason is not None:
                self._on_event(Stopped(reason))
                return history, reason
            iteration += 1

    def step(self, iteration: int, history: History) -> tuple[History, str | None]:
        """Perform one iteration, or return the reason why there is none. `history` may already
        contain some of its trials.
        """
        before = history.before(iteration)
        reason = self.done(iteration, before) or self.exhausted(history)
        if reason is not None:
            return history, reason
        parents = self._parents(iteration, before)
        if not parents:
            return history, "no language model expects that a further change is worthwhile"
        self._on_event(IterationStarted(iteration, self._most(before), tuple(parents)))
        parts = self._batches.stream(
            iteration,
            parents,
            before,
            lambda: self._require_budget(history),
            history[len(before) :],
        )
        try:
            history = self._extend(iteration, parts, history, self._rounds > 0)
            for left in reversed(range(self._rounds)):
                part = self._batches.answers(history)
                history = self._extend(iteration, iter([part]), history, left > 0)
        except BudgetSpentError as stop:
            return stop.history or history, self.exhausted(stop.history or history)
        finally:
            parts.close()
            self._batches.end()
        best = history.best
        self._on_event(IterationFinished(iteration, len(history) - len(before), best))
        return history, self.exhausted(history)

    def propose(self, iteration: int, history: History) -> Generator[EvaluationRequest, None, None]:
        """The new candidates of one iteration, one by one, for a caller who evaluates them.

        Raises `BudgetSpentError` if the budget is spent.
        """
        parents = self._parents(iteration, history)
        self._on_event(IterationStarted(iteration, self._most(history), tuple(parents)))
        parts = self._batches.stream(
            iteration, parents, history, lambda: self._require_budget(history)
        )
        try:
            for part in parts:
                yield from part
        finally:
            parts.close()
            self._batches.end()

    def evaluate(self, iteration: int, candidate: Candidate, history: History) -> History:
        """The history with one more trial, or the same history if the wall-clock time is used
        up.
        """
        parts = iter([[EvaluationRequest(candidate)]])
        trials, _ = self._evaluate(iteration, parts, history, self._budget)
        return history.extended(trials)

    def _most(self, history: History) -> int:
        """The maximum number of iterations, increased by those that only searched values."""
        return self._iterations + values_only(history)

    def _parents(self, iteration: int, before: History) -> list[Trial]:
        """The parents that the strategy selects, without those in `closed`."""
        closed = self._closed(iteration)
        return [p for p in self._strategy.select(before) if p.candidate.id not in closed]

    def _extend(
        self,
        iteration: int,
        parts: Iterator[Sequence[EvaluationRequest]],
        history: History,
        answered: bool,
    ) -> History:
        """Evaluate the candidates that are not recorded, within the budget; `BudgetSpentError` ends
        the batch early.

        With `answered`, authors continue from the outcomes, which are passed to them immediately.
        """
        left = self.evaluations_left(history)

        def new_parts() -> Iterator[list[EvaluationRequest]]:
            nonlocal left
            for part in parts:
                new = [r for r in part if history.get(r.candidate.id) is None]
                if left is not None:
                    new = new[:left]
                    left -= len(new)
                yield new
                if left == 0:
                    return

        trials, reason = self._evaluate(iteration, new_parts(), history, self._budget, answered)
        history = history.extended(trials)
        if left == 0 or reason is not None:
            raise BudgetSpentError(history)
        return history

    def _evaluate(
        self,
        iteration: int,
        parts: Iterator[Sequence[EvaluationRequest]],
        history: History,
        budget: Budget,
        answered: bool = False,
    ) -> tuple[list[Trial], str | None]:
        """Evaluate and record a batch; also returns a reason if the wall-clock time was used up in
        it.

        Further parts of the batch are requested while earlier parts are evaluated.
        """
        requests: list[EvaluationRequest] = []
        done: dict[int, Trial] = {}
        appended: list[Trial] = []
        ended = False

        def more() -> Sequence[EvaluationRequest] | None:
            nonlocal ended
            part = next(parts, None)
            if part is None:
                ended = True
            elif part:
                requests.extend(part)
                self._on_event(EvaluationStarted(iteration, len(part)))
            return part

        def on_outcome(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            candidate = requests[position].candidate
            index = len(history) + position
            trial = Trial(index, iteration, candidate, outcome, wall_s, cached)
            done[position] = trial
            self._on_event(Evaluated(trial))
            if answered:
                self._batches.hear(trial)
            while (following := done.get(len(appended))) is not None:
                self._append(following)
                appended.append(following)
            over = ended and len(done) == len(requests)
            if not over:
                checkpoint()

        def checkpoint() -> None:
            self._deliver()
            if budget.exhausted(self._spent(history)):
                raise BudgetSpentError  # evaluations in progress are stopped

        try:
            self._executor.evaluate([], on_outcome, more, checkpoint)
        except BudgetSpentError:
            self._close_gaps(appended, done, len(history))
            return appended, budget.exhausted(self._spent(history))
        return appended, None

    def _close_gaps(self, appended: list[Trial], done: dict[int, Trial], offset: int) -> None:
        """Record finished evaluations although an earlier request will never finish, because the
        run ends here.
        """
        for position in sorted(done)[len(appended) :]:
            trial = done[position]
            index = offset + len(appended)
            moved = Trial(
                index, trial.iteration, trial.candidate, trial.outcome, trial.wall_s, trial.cached
            )
            self._append(moved)
            appended.append(moved)

    def _require_budget(self, history: History) -> None:
        self._deliver()
        if self._budget.exhausted(self._spent(history)):
            raise BudgetSpentError

    def done(self, iteration: int, before: History) -> str | None:
        """The reason why the search has no such iteration, independently of the budget, or None."""
        return self._strategy.should_stop(before, iteration) or near_bound(
            before, self._stop_within
        )

    def exhausted(self, history: History) -> str | None:
        """The reason why the budget allows nothing more, or None."""
        return self._budget.exhausted(self._spent(history)) or self._models_stop()

    def evaluations_left(self, history: History) -> int | None:
        """The number of evaluations that the budget still allows; None if there is no limit."""
        return self._budget.evaluations_left(self._spent(history))

    def _spent(self, history: History) -> Spent:
        return Spent(len(history), self._wall_s())
