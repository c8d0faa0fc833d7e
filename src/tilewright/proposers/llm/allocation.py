"""Adaptive allocation: the shares of an ensemble's models follow their measured gain per dollar.

With n models, where G and C are the gain and the cost of all models in N calls, and g and c are
those of one model:

    rate  = (g + 10 G/N) / (c + 10 C/N)
    share = 0.3/n + 0.7 rate / (sum of all rates)

The terms with the factor 10 have the same effect as ten more calls of average gain and cost. Each
model gets at least 30 % of an equal share. As long as there is no gain, the shares are equal.

The gain is the log2 of a candidate's speedup over the best kernel of earlier iterations, if the
candidate is faster. Half of it counts for the model that made the plan, and half for the model that
wrote the kernel. The cost is in US dollars by the run's prices. It includes replies that were taken
from earlier runs, so that shares depend only on the replies. If a price is unknown, tokens are
counted, and if their number is unknown, calls.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from tilewright.core.records import CallRecord, History
from tilewright.core.roles import CallStore
from tilewright.proposers.llm.messages import Usage
from tilewright.proposers.llm.prices import Price

FLOOR = 0.3
PRIOR_CALLS = 10.0


class AdaptiveShares:
    """The shares of each iteration, which are computed once, before the iteration's first call.
    Thread-safe.

    Args:
        models: the ensemble, in order.
        store: holds the run's calls.
        run_id: the run.
        prices: by model name; None for an unknown price.
        decided: shares of iterations that an earlier session of the run began.
        keep: stores the shares of an iteration.
    """

    def __init__(
        self,
        models: Sequence[str],
        *,
        store: CallStore,
        run_id: str,
        prices: Mapping[str, Price | None],
        decided: Mapping[int, Sequence[float]],
        keep: Callable[[int, Sequence[float]], None],
    ) -> None:
        self._models = tuple(models)
        self._store = store
        self._run_id = run_id
        self._prices = prices
        self._decided = {iteration: tuple(shares) for iteration, shares in decided.items()}
        self._keep = keep
        self._lock = threading.Lock()

    def begin(self, iteration: int, history: History) -> None:
        """Compute the shares of an iteration; `history` ends before it."""
        with self._lock:
            if iteration in self._decided:
                return
            calls = [c for c in self._store.calls(self._run_id) if c.state == "replied"]
            shares = shares_of(
                gains_of(self._models, history),
                costs_of(self._models, calls, self._prices),
                len(calls),
            )
            self._keep(iteration, shares)
            self._decided[iteration] = shares

    def of(self, iteration: int) -> tuple[float, ...]:
        """The shares of an iteration after `begin`, in the order of the models."""
        with self._lock:
            return self._decided[iteration]


def shares_of(gains: Sequence[float], costs: Sequence[float], calls: int) -> tuple[float, ...]:
    """Each model's share, by the formula above; they add up to 1."""
    n = len(gains)
    if calls == 0 or sum(gains) == 0 or sum(costs) == 0:
        return (1 / n,) * n
    gain, cost = (PRIOR_CALLS * sum(all_of) / calls for all_of in (gains, costs))
    rates = [(g + gain) / (c + cost) for g, c in zip(gains, costs, strict=True)]
    return tuple(FLOOR / n + (1 - FLOOR) * rate / sum(rates) for rate in rates)


def gains_of(models: Sequence[str], history: History) -> list[float]:
    """Each model's gain in doublings of speed."""
    gains = dict.fromkeys(models, 0.0)
    best = math.inf
    for _, trials in groupby(history, key=lambda trial: trial.iteration):
        before = best
        for trial in trials:
            if trial.latency is None:
                continue
            best = min(best, trial.latency)
            gain = max(0.0, math.log2(before / trial.latency)) if before < math.inf else 0.0
            candidate = trial.candidate
            for author in (candidate.proposer, candidate.plan.proposer if candidate.plan else ""):
                if author in gains:
                    gains[author] += gain / 2
    return list(gains.values())


def costs_of(
    models: Sequence[str], calls: Sequence[CallRecord], prices: Mapping[str, Price | None]
) -> list[float]:
    """Each model's cost of answered calls, in dollars if all prices are known, otherwise in tokens,
    otherwise in calls.
    """
    usd, tokens = dict.fromkeys(models, 0.0), dict.fromkeys(models, 0.0)
    counts = dict.fromkeys(models, 0.0)
    priced = counted = True
    for call in (call for call in calls if call.model in counts):
        usage = Usage(call.input_tokens, call.cached_tokens, output=call.output_tokens)
        price = prices.get(call.model)
        dollars = price.usd(usage) if price is not None else None
        priced, counted = priced and dollars is not None, counted and usage.known
        usd[call.model] += dollars or 0.0
        tokens[call.model] += usage.total
        counts[call.model] += 1
    return list((usd if priced else tokens if counted else counts).values())
