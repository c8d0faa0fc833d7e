"""Records and fakes the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from tilewright.core.budget import Budget, Spent
from tilewright.core.records import (
    Argument,
    Brief,
    CallRecord,
    Candidate,
    Check,
    Example,
    Failed,
    History,
    LatencyKind,
    Measured,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.parts.languages import C
from tilewright.proposers.llm.caller import Caller
from tilewright.proposers.llm.ledger import Ledger
from tilewright.proposers.llm.messages import Reply, Request

START = "void kernel(const int8_t x[8], int8_t y[8]) {\n  copy(x, y);\n  fence();\n}\n"
MENU = (
    MenuOption("widen", "Move more bytes with each command."),
    MenuOption("tile", "Tile the loops."),
)
TARGET = TargetBrief(
    name="toyaccel",
    isa="`copy(from, to)` moves 8 bytes.\n`fence()` waits.",
    rules="- End with a fence.\n- Use no library.",
    menu=MENU,
    commands=(),
    limits={},
    constants={},
    language=C,
    latency=LatencyKind("simulated", "cycles"),
    costs="- A copy takes 3 cycles.",
    plan_hints="Name the copies to change.",
    examples=(Example("tiling a loop", ("tile",), "Split `i` into `io` and `ii`."),),
)
WORKLOAD = Workload(
    "toyaccel:copy-8",
    "toyaccel",
    (Argument("x", (8,), "int8", "input"), Argument("y", (2, 4), "int8", "output")),
    8,
)
BRIEF = Brief(WORKLOAD, TARGET, MENU, iteration=3, iterations=15)
PARENT = Trial(
    0,
    0,
    Candidate(START),
    Measured(
        latency=1000.0,
        unit="cycles",
        quantity="simulated",
        utilization=0.25,
        verdict=Verdict((Check(1, "full range"),)),
        breakdown={"array_busy": 250.0, "dma_wait": 700.0, "fence": 1.0},
        details={"scratchpad_kb": 96.0},
    ),
)
HISTORY = History([PARENT])
PLAN = Plan(PARENT.candidate.id, "tile", "Tile loop i by 4.", "m", {"slot": 1}, "half")


def child(number: int, latency: float, source: str = "") -> Trial:
    """A measured child of the start."""
    assert isinstance(PARENT.outcome, Measured)
    candidate = Candidate(source or f"{START}// {number}\n", PARENT.candidate.id, PLAN, "m")
    return Trial(number, 1, candidate, replace(PARENT.outcome, latency=latency))


def failed(kind: str = "wrong_result", stage: str = "check") -> Trial:
    source = START.replace("copy(x, y)", "copy(y, x)")
    failure = Failed(stage, kind, "y[0][3]: got 0, expected 7", line=2)  # type: ignore[arg-type]
    return Trial(1, 1, Candidate(source, PARENT.candidate.id, PLAN, "openai/a"), failure)


class MemoryCalls:
    """The `CallStore` role in memory."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], CallRecord] = {}
        self.replies: dict[str, Mapping[str, object]] = {}
        self.log: list[tuple[str, str]] = []

    def reply(self, key: str) -> Mapping[str, object] | None:
        return self.replies.get(key)

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        self.log.append(("intend", call.key))
        self.records[call.run_id, call.key] = call

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        self.log.append(("finish", call.key))
        self.records[call.run_id, call.key] = call
        if reply is not None:
            self.replies[call.key] = reply

    def annotate(self, run_id: str, key: str, note: str) -> None:
        self.records[run_id, key] = replace(self.records[run_id, key], note=note)

    def calls(self, run_id: str) -> list[CallRecord]:
        return [call for (run, _), call in self.records.items() if run == run_id]

    def close(self) -> None:
        pass


class FunctionTransport:
    """The `Transport` role: a function answers, in threads; what it raises, the future raises."""

    def __init__(
        self, answer: Callable[[Request], Reply], store: MemoryCalls | None = None
    ) -> None:
        self._answer = answer
        self._store = store
        self._threads = ThreadPoolExecutor(4)
        self.sent: list[Request] = []
        self.closed = False

    def submit(self, request: Request) -> Future[Reply]:
        if self._store is not None:
            assert ("intend", request.key) in self._store.log, "the intent comes first"
        self.sent.append(request)
        return self._threads.submit(self._answer, request)

    def settled(self, key: str) -> None:
        if self._store is not None:
            self._store.log.append(("settled", key))

    def close(self) -> None:
        self.closed = True
        self._threads.shutdown()


def caller(
    answer: Callable[[Request], Reply],
    store: MemoryCalls | None = None,
    budget: Budget = Budget(),  # noqa: B008
    run_id: str = "run",
) -> tuple[Caller, FunctionTransport]:
    store = store or MemoryCalls()
    transport = FunctionTransport(answer, store)
    made = Caller(
        transport=transport,
        store=store,
        run_id=run_id,
        ledger=Ledger(budget, Spent()),
        prices={},
    )
    return made, transport
