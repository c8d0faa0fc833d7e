"""The cost of a run's calls to models: by model and phase, in total, and per doubling of the
speed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.core.records import CallRecord
from tilewright.report.text import number, ratio, words

TURN = "turn "

PHASES = ("plan", "implement", "repair")
"""The phases of calls in the order in which they are listed. Turns are listed after them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Sums over some calls. `usd` is the known cost, without the calls in `unpriced`.

    `unused` counts replies that were not accepted, and `reasons` says why, the most frequent reason
    first, with the number of replies. `under_way` calls had no reply when the
    run stopped, and cost at most `under_way_usd`. `served_by` contains the names that the models
    give themselves.
    """

    model: str
    phase: str
    calls: int
    cached_calls: int
    failed: int
    unused: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: float
    unpriced: int
    under_way: int
    under_way_usd: float
    served_by: tuple[str, ...]
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


_MOST_REASONS = 3
"""Maximum number of reasons in a sentence."""


def costs(calls: Sequence[CallRecord]) -> list[Cost]:
    """One row per model and phase, in the order of the first call of each model."""
    models = list(dict.fromkeys(call.model for call in calls))
    turns = sorted({c.phase for c in calls if c.phase.startswith(TURN)}, key=lambda p: (len(p), p))
    rows = [
        total([c for c in calls if c.model == model and c.phase == phase], model, phase)
        for model in models
        for phase in (*PHASES, *turns)
    ]
    return [row for row in rows if row.calls or row.failed or row.under_way]


def cost_rows(calls: Sequence[CallRecord]) -> tuple[Cost, ...]:
    """One row per model and phase, and one over all of them if there are several."""
    rows = costs(calls)
    return (*rows, total(calls, "all")) if len(rows) > 1 else tuple(rows)


def total(calls: Sequence[CallRecord], model: str = "", phase: str = "") -> Cost:
    """The sums over all of these calls."""
    done = [call for call in calls if call.state == "replied"]
    open_ = [call for call in calls if call.state == "intended"]
    paid = [call for call in done if not call.cached]
    return Cost(
        model=model,
        phase=phase,
        calls=len(done),
        cached_calls=len(done) - len(paid),
        failed=sum(call.state == "failed" for call in calls),
        unused=sum(call.is_unused for call in done),
        input_tokens=_sum(call.input_tokens for call in paid),
        cached_tokens=_sum(call.cached_tokens for call in paid),
        output_tokens=_sum(call.output_tokens for call in paid),
        reasoning_tokens=_sum(call.reasoning_tokens for call in paid),
        usd=sum(call.usd or 0.0 for call in paid),
        unpriced=sum(call.usd is None for call in paid),
        under_way=len(open_),
        under_way_usd=sum(call.counted_usd for call in open_),
        served_by=tuple(sorted({call.served_by for call in done if call.served_by})),
        reasons=tuple(Counter(call.note for call in done if call.is_unused).most_common()),
    )


def usd_per_doubling(cost: Cost, speedup: float | None) -> float | None:
    """Dollars per doubling of the speed; None if nothing was gained or a price is unknown."""
    if speedup is None or speedup <= 1 or cost.unpriced or not cost.calls:
        return None
    return cost.usd / math.log2(speedup)


def cost_sentence(cost: Cost, speedup: float | None) -> str:
    """A sentence on calls, tokens and dollars, which says what is unknown."""
    unknown = not cost.tokens and cost.calls > cost.cached_calls
    tokens = "tokens unknown" if unknown else f"{number(cost.tokens)} tokens"
    parts = [f"{cost.calls} calls to models, {tokens}, {dollars(cost)}"]
    if cost.cached_calls:
        parts.append(f"{cost.cached_calls} answered from earlier runs")
    if cost.failed:
        parts.append(f"{cost.failed} failed")
    if cost.unused:
        told = ", ".join(
            f"{count} {words(note)[:80]}" for note, count in cost.reasons[:_MOST_REASONS]
        )
        parts.append(f"{cost.unused} replies not used: {told}")
    if cost.under_way:
        parts.append(
            f"{cost.under_way} under way when it stopped, at most {cost.under_way_usd:.4f} USD"
        )
    if cost.served_by:
        parts.append(f"answered by {', '.join(cost.served_by)}")
    price = usd_per_doubling(cost, speedup)
    if price is not None and speedup is not None:
        parts.append(f"{price:.4g} USD per doubling of speed ({ratio(speedup)})")
    return "; ".join(parts)


def dollars(cost: Cost) -> str:
    """The known dollars, and the number of calls without a known price."""
    if cost.unpriced == cost.calls - cost.cached_calls and cost.unpriced:
        return "price unknown"
    known = f"{cost.usd:.4f} USD"
    return f"{known} and {cost.unpriced} calls of unknown price" if cost.unpriced else known


def usd_text(cost: Cost) -> str:
    """Dollars for a cell of a table, with a plus sign if some calls have no known price."""
    if cost.unpriced and not cost.usd:
        return "unknown"
    return f"{cost.usd:.4f}{'+' if cost.unpriced else ''}"


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)
