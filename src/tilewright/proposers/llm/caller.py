"""Makes calls so that none is paid for twice and none exceeds the budget.

For each call, a recorded reply is used if there is one. Otherwise, the cost is reserved, the call
is recorded as intended, sent, and recorded with its reply and cost. If the process is killed,
replies to intended calls are written to the spool, where `submit` finds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from tilewright.core.budget import Spent
from tilewright.core.errors import StorageError
from tilewright.core.records import CallRecord
from tilewright.core.roles import CallStore
from tilewright.proposers.llm.dispatch import Transport
from tilewright.proposers.llm.failures import CallAbandonedError
from tilewright.proposers.llm.ledger import Ledger
from tilewright.proposers.llm.messages import (
    Message,
    Reply,
    Request,
    Usage,
    reply_from_json,
    reply_to_json,
    request_to_json,
)
from tilewright.proposers.llm.prices import Price, reserved_usage
from tilewright.proposers.llm.providers.base import GO_ON as RESUME
from tilewright.proposers.llm.replies import inside_block

CONTINUATIONS = 2
"""Maximum number of continuations that are requested for a truncated reply."""

GO_ON = (
    "Your answer was cut off. Go on exactly where it stopped, without repeating anything and "
    "without opening a new fenced block if you were inside one."
)


_IMPLEMENTATION = Spent(calls=1)
"""The cost that is kept for the implementation of a plan. No tokens and dollars are kept, because
their upper bounds are many times what calls cost, so much of a budget would remain unused.
"""


class Caller:
    """The calls of one run. Thread-safe.

    Args:
        transport: makes the calls.
        store: keeps them.
        run_id: the run they belong to.
        ledger: ensures that they stay within the budget.
        prices: by model name; None for an unknown price.
        on_call: called with each finished call.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        store: CallStore,
        run_id: str,
        ledger: Ledger,
        prices: Mapping[str, Price | None],
        on_call: Callable[[CallRecord], None] = lambda call: None,
    ) -> None:
        self._transport = transport
        self._store = store
        self._run_id = run_id
        self._ledger = ledger
        self._prices = prices
        self._on_call = on_call
        self._mine = {call.key for call in store.calls(run_id) if call.state == "replied"}
        self._lock = threading.Lock()
        for key in self._mine:
            # A session killed right after recording a reply has left the call in the spool.
            transport.settled(key)

    def begin(self, requests: Sequence[Request], plan: str = "") -> list[Pending]:
        """Start all of these calls. Each reply can be waited for separately.

        If the calls implement a plan, `plan` is the key of the request for it.
        """
        begun = []
        for request in requests:
            begun.append(Pending(self, request, self._submit(request, plan)))
            plan = ""  # the budget keeps the cost of one implementation
        return begun

    def begin_iteration(self, iteration: int) -> None:
        """Record that the plans of earlier iterations are not implemented any more."""
        self._ledger.begin(iteration)

    def drop(self, request: Request) -> None:
        """Record that no plan of this request is implemented."""
        self._ledger.drop(request.key)

    def ask(self, requests: Sequence[Request], plan: str = "") -> list[Reply | None]:
        """Replies to concurrent calls, in the order of the requests; None for a call that the
        budget does not allow. `plan` is that of `begin`.

        A `ModelError` is raised only after all other calls have been finished and recorded.
        """
        calls = self.begin(requests, plan)
        for call in calls:
            call.wait()
        return [call.reply() for call in calls]

    def reject(self, request: Request, note: str) -> None:
        """Record why a reply could not be used."""
        self._store.annotate(self._run_id, request.key, note)

    def continued(self, request: Request, reply: Reply) -> Reply:
        """A truncated reply together with its continuations.

        With tools, no continuation is requested, because a reply that was cut off within a call of
        a tool cannot be continued.
        """
        if request.tools:
            return reply
        for _ in range(CONTINUATIONS):
            if reply.stop != "length" or not reply.text.strip():
                break
            go_on = (Message("assistant", reply.text), Message("user", GO_ON))
            longer = replace(request, messages=request.messages + go_on)
            future = self._submit(longer, is_continuation=True)
            if future is None:
                break
            more = future.result()
            usage = reply.usage + more.usage
            reply = replace(more, text=_spliced(reply.text, more.text), usage=usage)
        return reply

    def _submit(
        self, request: Request, plan: str = "", *, is_continuation: bool = False
    ) -> Future[Reply] | None:
        """A future of the reply, which is recorded before the future is done; None if the budget
        does not allow the call.
        """
        key = request.key
        is_plan = request.phase == "plan" and not is_continuation
        recorded = self._store.reply(key)
        if recorded is not None:
            self._ledger.drop(plan)
            if is_plan:
                self._ledger.keep(key, _IMPLEMENTATION)
            done = Future[Reply]()
            done.set_result(_stored(recorded))
            self._note_cached(request, done.result())
            return done
        if self._transport.closed:  # a call that is never sent has not failed
            stopped = Future[Reply]()
            stopped.set_exception(CallAbandonedError(f"the run was stopped; {RESUME}."))
            return stopped
        cost, keep = self._cost(request), _IMPLEMENTATION if is_plan else None
        if not self._ledger.reserve(key, cost, keep=keep, plan=plan):
            return None
        call = CallRecord(
            self._run_id,
            key,
            request.model,
            request.phase,
            counted_usd=cost.usd,
            counted_tokens=cost.tokens,
        )
        self._store.intend(call, request_to_json(request))
        settled = Future[Reply]()
        self._transport.submit(request).add_done_callback(
            lambda future: self._settle(call, future, settled)
        )
        return settled

    def _settle(self, call: CallRecord, future: Future[Reply], settled: Future[Reply]) -> None:
        """Record how a call ended. The waiting threads continue afterwards."""
        try:
            error = future.exception()
            if error is not None:
                self._ledger.release(call.key)
                if not isinstance(error, CallAbandonedError):
                    nothing = replace(call, counted_usd=0.0, counted_tokens=0)
                    self._store.finish(replace(nothing, state="failed", note=str(error)), None)
                settled.set_exception(error)
                return
            reply = future.result()
            price = self._prices.get(call.model)
            usd = price.usd(reply.usage) if price is not None else None
            tokens = reply.usage.total if reply.usage.known else None
            counted = self._ledger.settle(call.key, usd, tokens)
            finished = replace(
                _described(call, reply),
                usd=usd,
                counted_usd=counted.usd,
                counted_tokens=counted.tokens,
            )
            with self._lock:  # before other threads that wait for the same call get the reply
                self._mine.add(call.key)
            self._store.finish(finished, reply_to_json(reply))
            self._transport.settled(call.key)
            self._on_call(finished)
            settled.set_result(reply)
        except BaseException as error:
            # For example a full disk. The exception must be raised in the waiting thread, not in
            # this callback.
            settled.set_exception(error)

    def _note_cached(self, request: Request, reply: Reply) -> None:
        """Record in this run a reply for which another run has paid, without a cost."""
        with self._lock:
            if request.key in self._mine:
                return
            self._mine.add(request.key)
        call = CallRecord(self._run_id, request.key, request.model, request.phase, cached=True)
        self._store.intend(call, request_to_json(request))
        finished = replace(_described(call, reply), usd=0.0)
        self._store.finish(finished, reply_to_json(reply))
        self._on_call(finished)

    def _cost(self, request: Request) -> Spent:
        usage = reserved_usage(request)
        price = self._prices.get(request.model)
        usd = price.usd(usage) if price is not None else None
        return Spent(usd=usd or 0.0, tokens=usage.total, calls=1)


@dataclass(frozen=True, slots=True)
class Pending:
    """A call that was started; `future` is None if the budget does not allow the call."""

    caller: Caller
    request: Request
    future: Future[Reply] | None

    def wait(self) -> None:
        """Wait until the call has ended, successfully or not."""
        if self.future is not None:
            self.future.exception()

    def reply(self) -> Reply | None:
        """Wait for the reply, which is continued if it was truncated; None if the budget does not
        allow the call.
        """
        if self.future is None:
            return None
        return self.caller.continued(self.request, self.future.result())


def _stored(recorded: Mapping[str, object]) -> Reply:
    """A reply from the project's database, which may have been written by somebody else."""
    try:
        return reply_from_json(recorded)
    except ValueError as error:
        raise StorageError(
            f"a stored reply cannot be read ({error}): restore the database from a copy, or start "
            "a new project folder."
        ) from error


def _described(call: CallRecord, reply: Reply) -> CallRecord:
    usage: Usage = reply.usage
    return replace(
        call,
        state="replied",
        input_tokens=usage.input,
        cached_tokens=usage.cached,
        output_tokens=usage.output,
        reasoning_tokens=usage.reasoning,
        served_by=reply.served_by,
        attempts=reply.attempts,
    )


def _spliced(text: str, more: str) -> str:
    """A text and its continuation, without a fence that the continuation repeats."""
    if inside_block(text) and more.lstrip().startswith("```"):
        first, _, rest = more.lstrip().partition("\n")
        if first.strip() != "```" or rest.count("```") % 2 == 1:
            more = rest
    return text + more
