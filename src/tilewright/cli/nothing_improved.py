"""Explains why a search found no faster kernel, with one line for each reason, and suggests what to
try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.cli.options import as_started
from tilewright.core.records import Failed, Measured
from tilewright.core.text import counted, listed
from tilewright.proposers.llm.models import is_model_name
from tilewright.report.text import duration, number, words
from tilewright.search.beam import VALUES_ARE_FOUND
from tilewright.search.summary import unconfirmed_words

if TYPE_CHECKING:
    from tilewright.core.records import History, Trial
    from tilewright.search.summary import Summary

AT_BOUND = 0.05
"""A kernel is regarded as close to its bound if it is above the bound by at most this share."""
_STOPPED_EARLY = "slower_than_limit"
_MORE_VALUES = (
    "Declare further values or parameters in the template, or leave out --without structure."
)


def reasons(summary: Summary, history: History) -> Iterator[str]:
    """The reasons why no kernel was faster; empty if a kernel was."""
    if summary.speedup is None or summary.is_faster:
        return
    yield "Why no faster kernel was found, and what you can try:"
    at_bound = list(_at_bound(history))
    for line in (
        *_unfinished(summary),
        *([] if at_bound else _untried(summary, history)),
        *_not_understood(summary),
        *_failed(summary, history),
        *_slower(summary, history),
        *_unconfirmed(summary),
        *at_bound,
    ):
        yield f"  {as_started(line)}"
    yield ""


def _unfinished(summary: Summary) -> Iterator[str]:
    if summary.status != "finished" and not summary.is_out_of_time:
        yield (
            f"The run stopped before it was finished. `tilewright runs resume {summary.run_id}` "
            "continues it."
        )


def _untried(summary: Summary, history: History) -> Iterator[str]:
    if len(history) > 1 or (summary.status != "finished" and not summary.is_out_of_time):
        return
    if "evaluation" in summary.stop_reason:
        yield (
            "The budget allows only the evaluation of the starting kernel. Give a larger --budget, "
            'such as "20 evaluations".'
        )
    elif summary.is_out_of_time:
        yield (
            "The budget ended before the first candidate was evaluated. Give a larger --budget, "
            "or search when the machine is less busy."
        )
    elif "budget" in summary.stop_reason:
        start = sum(t.wall_s for t in history)
        rest = max(0.0, summary.wall_s - start)
        yield (
            "The budget ended before the first candidate was evaluated. Of "
            f"{duration(summary.wall_s)}, the evaluation of the starting kernel took "
            f"{duration(start)}; the other {duration(rest)} were spent on starting processes, the "
            "baselines, writing candidates and evaluations that did not finish in time. Give a "
            "larger --budget, or search when the machine is less busy."
        )
    elif models := [name for name in summary.proposers if is_model_name(name)]:
        yield (
            f"No kernel was written. {listed(models)} did not answer, or gave no answer that "
            "contains a kernel. "
            f"`tilewright models {' '.join(models)} --ask` asks each model once and prints its "
            "answer."
        )
    elif summary.stop_reason == VALUES_ARE_FOUND:
        yield f"The template has only one valid combination of values. {_MORE_VALUES}"
    else:
        yield (
            "None of the optimisations that the proposer knows applies to this kernel. Add a "
            "language model (--proposer openai/gpt-5.5), or write the kernel with simpler loops."
        )


def _not_understood(summary: Summary) -> Iterator[str]:
    if summary.left_alone:
        yield (
            "The built-in rewriter does not understand "
            f"{counted(len(summary.left_alone), 'part')} of the starting kernel, listed below. "
            "Rewrite them as plain loops, or add a language model with --proposer."
        )


def _failed(summary: Summary, history: History) -> Iterator[str]:
    kinds = Counter(
        t.outcome.kind
        for t in _candidates(history)
        if isinstance(t.outcome, Failed) and t.outcome.kind not in (_STOPPED_EARLY, "unconfirmed")
    )
    if kinds:
        failures = ", ".join(f"{count} {words(kind)}" for kind, count in kinds.most_common())
        repairs = " With --repairs 2, a language model may correct a failed kernel twice."
        yield (
            f"Candidates failed ({failures}). `tilewright runs show {summary.run_id} --trials` "
            f"lists them.{repairs if any(map(is_model_name, summary.proposers)) else ''}"
        )


def _slower(summary: Summary, history: History) -> Iterator[str]:
    slower = sum(
        isinstance(t.outcome, Measured) or t.outcome.kind == _STOPPED_EARLY
        for t in _candidates(history)
    )
    if slower:
        advice = "Try a larger --budget, another --seed or a larger --beam."
        if summary.stop_reason == VALUES_ARE_FOUND:
            advice = _MORE_VALUES
        yield (
            f"{counted(slower, 'candidate')} computed correct results but {_was(slower)} no "
            f"faster than the starting kernel. {advice}"
        )


def _unconfirmed(summary: Summary) -> Iterator[str]:
    if summary.unconfirmed:
        failed = all(getattr(t.outcome, "cause", "") for t in summary.unconfirmed)
        advice = "" if failed else " Measure on a less busy machine."
        yield f"{unconfirmed_words(summary.unconfirmed)} (listed below).{advice}"


def _at_bound(history: History) -> Iterator[str]:
    best = history.best.outcome if history.best else None
    if not isinstance(best, Measured) or not best.bound:
        return
    if best.refutes_bound:
        yield (
            f"The kernel takes {number(best.latency)} {best.unit}, less than the bound of "
            f"{number(best.bound)} {best.unit}. The bound is computed from `operations` "
            "in workload.toml, so correct this number."
        )
    elif best.is_near_bound(AT_BOUND):
        yield (
            f"The kernel takes {number(best.latency)} {best.unit}, within "
            f"{best.latency / best.bound - 1:.1%} of the bound of {number(best.bound)} "
            f"{best.unit}, which no kernel can beat."
        )


def _candidates(history: History) -> Iterator[Trial]:
    return (trial for trial in history if trial.index > 0)


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
