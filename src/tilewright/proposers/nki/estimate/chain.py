"""Estimates the time of a kernel's statements if each waits for its inputs.

A loop that reads data which another loop writes in parts follows it iteration by iteration. Any
other statement waits until its inputs are complete. New tiles in PSUM wait for banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.proposers.nki.ir import Alloc, Body, Loop, Op, Statement, Tensor, ops, variables

PSUM_BANKS, BANK_BYTES = 8, 2048


def banks_of(tensor: Tensor) -> int:
    """Number of PSUM banks that a tile takes."""
    return -(-tensor.partition_bytes // BANK_BYTES)


def longest_chain(body: Body, times: Sequence[tuple[float, float, Mapping[str, float]]]) -> float:
    """Nanoseconds from the beginning of the first statement to the end of the last one.

    `times` are the nanoseconds of the first iteration of each statement, of all its iterations, and
    of each engine. An engine executes instructions in the order of the text.
    """
    ready: dict[str, tuple[float, float, bool]] = {}
    """For written data: when the first part is complete, when all is, and whether it is written in
    parts."""
    banks, end = _Banks(body), 0.0
    engines: dict[str, float] = {}
    """Nanoseconds for which each engine has worked."""
    for number, statement in enumerate(body):
        found = _ops(statement)
        if not found:
            continue
        first, total, busy = times[number]
        start, finish = banks.taken(number), 0.0
        for engine, ns in busy.items():
            done = engines.get(engine, 0.0)
            finish = max(finish, done + ns)
            if not isinstance(statement, Loop):
                start = max(start, done)
        for op in found:
            for region in op.reads:
                if region.tensor not in ready:
                    continue
                piece, whole, pieces = ready[region.tensor]
                if pieces and _moves(op, statement):
                    start, finish = max(start, piece), max(finish, whole + first)
                else:
                    start = max(start, whole)
        finish = max(finish, start + total)
        for engine, ns in busy.items():
            done = engines.get(engine, 0.0)
            engines[engine] = ns + (done if engine == "dma" else max(done, start))
        for op in found:
            for region in op.writes:
                piece, whole, pieces = ready.get(region.tensor, (start + first, 0.0, True))
                pieces = pieces and _moves(op, statement)
                ready[region.tensor] = min(piece, start + first), max(whole, finish), pieces
        banks.left(number, finish)
        end = max(end, finish)
    return end


def _ops(statement: Statement) -> list[Op]:
    return list(ops(statement.body if isinstance(statement, Loop) else (statement,)))


def _moves(op: Op, statement: Statement) -> bool:
    """Whether an instruction accesses other data in each iteration of a loop."""
    return isinstance(statement, Loop) and statement.variable in variables(op)


class _Banks:
    """The PSUM banks of the tiles in a body, in the order of its statements."""

    def __init__(self, body: Body) -> None:
        tiles = {
            s.tensor.name: banks_of(s.tensor)
            for s in body
            if isinstance(s, Alloc) and s.tensor.memory == "psum"
        }
        uses: dict[str, list[int]] = {}
        for number, statement in enumerate(body):
            for op in _ops(statement):
                for _, region in op.regions:
                    if region.tensor in tiles:
                        uses.setdefault(region.tensor, []).append(number)
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for name, numbers in uses.items():
            for edge, number in ((self._first, numbers[0]), (self._last, numbers[-1])):
                edge[number] = edge.get(number, 0) + tiles[name]
        self._free = PSUM_BANKS
        self._leaving: list[tuple[float, int]] = []

    def taken(self, number: int) -> float:
        """The time at which the new tiles of a statement get their banks."""
        begin, need = 0.0, self._first.get(number, 0)
        while need > self._free and self._leaving:
            self._leaving.sort()
            begin, banks = self._leaving.pop(0)
            self._free += banks
        self._free -= need
        return begin

    def left(self, number: int, finish: float) -> None:
        """Tiles whose last use is this statement free their banks at its end."""
        if number in self._last:
            self._leaving.append((finish, self._last[number]))
