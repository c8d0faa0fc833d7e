"""The tool `asm`: loops of the machine code, and the listing of one."""

from __future__ import annotations

from typing import Any

import pytest
from bench_world import BROKEN, START, ToyBench

from tilewright.core.compiled_code import CodeLine, CodeLoop, CompiledCode
from tilewright.core.errors import ToolchainMissingError
from tilewright.tools.assembly import MOST_LISTED
from tilewright.tools.records import Answer, Assembly, Refused, answer_json
from tilewright.tools.text import answer_text
from tilewright.tools.toolbox import call

CODE = CompiledCode(
    "toy",
    40,
    10,
    (
        CodeLoop(1, 1, 1, None, False, True, 40, {"arithmetic": 2, "branches": 1}),
        CodeLoop(
            2, 2, 2, 1, True, False, 24, {"arithmetic": 4, "commands": 2},
            spill_loads=1, extensions=1, listing=(CodeLine(0x10, "add"), CodeLine(0x14, "bne 10")),
        ),
        CodeLoop(3, 2, 1, None, False, True, 24, {"stores": 1}, listing=(CodeLine(0x20, "sw", 2),)),
    ),
    ("compiled loop at line 2: scalar",),
    (
        CodeLine(0x38, "li a0, 1", 1), CodeLine(0x3C, "li a1,\t2", 1), CodeLine(0x40, "add", 1),
        CodeLine(0x44, "sw", 2), CodeLine(0x48, "ret"),
    ),
)  # fmt: skip


@pytest.fixture
def bench() -> ToyBench:
    return ToyBench(shows=CODE)


def asked(bench: ToyBench, **arguments: Any) -> Answer:
    answer = call(bench, "asm", arguments)
    assert answer_json(answer)["answer"]
    assert answer_text(answer)
    return answer


def test_loops_are_told_with_their_source_lines(bench: ToyBench) -> None:
    found = asked(bench)
    assert isinstance(found, Assembly)
    assert [(loop.loop, loop.line, loop.text, loop.count) for loop in found.loops] == [
        (1, 1, "void kernel(void) {", 3),
        (2, 2, "copy();", 6),
        (3, 2, "copy();", 1),
    ]
    assert found.loops[1].per_command == 3.0
    assert found.loops[0].per_command is None
    assert (found.listed, found.listing) == (None, ())
    text = answer_text(found)
    assert "    2. line 2: up to 6 instructions (4 arithmetic, 2 commands)" in text
    assert "1 loads and 0 stores of spills; 1 only extend; 3 per accelerator command" in text
    assert "compiled loop at line 2: scalar" in text
    assert bench.left == 5


@pytest.mark.parametrize(
    ("chosen", "number"), [("2", 2), ("loop 3", 3), ("line 2", 2), ("line 1", 1)]
)
def test_a_loop_is_listed_by_its_number_or_line(bench: ToyBench, chosen: str, number: int) -> None:
    found = asked(bench, kernel=START, loop=chosen)
    assert isinstance(found, Assembly)
    assert found.listed == number
    rows = {1: (), 2: ("*10 -: add; bne 10",), 3: ("*20 2: sw",)}
    assert found.listing == rows[number]


def test_all_of_the_code_is_listed_by_source_line_and_by_what_is_fetched_together(
    bench: ToyBench,
) -> None:
    found = asked(bench, loop="all")
    assert isinstance(found, Assembly)
    assert found.listing == ("*38 1: li a0, 1; li a1, 2", "*40 1: add", " 44 2: sw", " 48 -: ret")
    assert "all of the code, by address and source line" in answer_text(found)
    assert "1. line 1" not in answer_text(found)


def test_the_code_of_some_lines_is_listed(bench: ToyBench) -> None:
    found = asked(bench, loop="lines 2-3")
    assert isinstance(found, Assembly)
    assert (found.listed, found.listing) == (None, ("*44 2: sw",))
    assert isinstance(asked(bench, loop="lines 7-9"), Refused)


def test_beside_a_listing_stands_its_loop_alone_and_a_number_may_name_it(bench: ToyBench) -> None:
    text = answer_text(asked(bench, loop=2))
    assert "    2. line 2: up to 6 instructions" in text
    assert "1. line 1" not in text
    assert "compiled loop at line 2: scalar" not in text


@pytest.mark.parametrize(
    "chosen", ["9", "line 9", "two", "loop", "../2", "2 2", "lines", "lines 1", "lines 3-"]
)
def test_a_loop_that_is_not_there_is_refused(bench: ToyBench, chosen: str) -> None:
    assert isinstance(asked(bench, loop=chosen), Refused)


def test_long_listings_are_cut() -> None:
    loop = CodeLoop(
        1, 1, 1, None, True, True, 4, {}, listing=(CodeLine(0, "add"),) * (MOST_LISTED + 7)
    )
    found = asked(ToyBench(shows=CompiledCode("toy", 4, 1, (loop,))), loop="1")
    assert isinstance(found, Assembly)
    assert (found.listing[0].count("add"), found.left_out) == (MOST_LISTED, 7)


def test_a_target_without_machine_code_says_so() -> None:
    found = asked(ToyBench())
    assert isinstance(found, Refused)
    assert "no machine code" in found.reason


def test_a_kernel_that_does_not_build_is_refused_with_its_line(bench: ToyBench) -> None:
    found = asked(bench, kernel=BROKEN)
    assert isinstance(found, Refused)
    assert "does not build at line 2" in found.reason


def test_a_missing_disassembler_is_a_refusal_and_ends_nothing(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(source: str) -> None:
        raise ToolchainMissingError("objdump was not found: install GNU binutils.")

    monkeypatch.setattr(bench, "code", missing)
    found = asked(bench)
    assert found == Refused("objdump was not found: install GNU binutils.")
