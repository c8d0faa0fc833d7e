"""Each call of a function gets a copy of its own, unless that is not possible."""

from __future__ import annotations

import time

import pytest

from tilewright.native.conditions import contexts
from tilewright.native.conditions.contexts import with_own_copies
from tilewright.native.conditions.dependence import sites_on_data
from tilewright.native.conditions.finding import Found, found_in
from tilewright.native.conditions.listing import Listing, read_listing
from tilewright.native.conditions.surroundings import OF_C
from tilewright.parts.machine_code.post_dominance import TooLargeError


def function(name: str, *code: str) -> str:
    lines = "".join(f"{line}\n" if line.endswith(":") else f"\t{line}\n" for line in code)
    return f"\t.type\t{name}, @function\n{name}:\n{lines}\t.size\t{name}, .-{name}\n"


def listing(*functions: str) -> Listing:
    return read_listing("\t.text\n" + "".join(functions), "kernel.c")


SPECIAL = function("special", "cmpl $7, %edi", "je .L1", "xorl %eax, %eax", ".L1:", "ret")
KNOWN = ("movl $7, %edi", "call special")
DATA = ("movl (%rsi), %edi", "call special")
TWICE = function("kernel", *KNOWN, *DATA, "ret")


def test_a_copy_tells_known_values_from_data() -> None:
    text = with_own_copies(listing(SPECIAL, TWICE), {"special"})
    assert text is not None
    found = read_listing(text, "kernel.c")
    assert set(found.functions) == {"special", "special.call1", "kernel"}
    (site,) = sites_on_data(found)
    assert found.functions_of([site.instruction]) == {"special.call1"}
    (jump,) = [one for one in found.functions["special.call1"].code if one.name == "je"]
    assert jump.operands == (".L1.call1",)


def test_the_results_of_a_condition_are_recorded_for_each_call() -> None:
    text = "\t.text\n" + SPECIAL + function("kernel", *DATA, *DATA, "ret")
    found = found_in(text, "kernel.c", OF_C)
    assert isinstance(found, Found)
    functions = {name for s in found.sites for name in found.listing.functions_of([s.instruction])}
    assert functions == {"special", "special.call1"}


def test_the_functions_of_a_copy_are_copied_too() -> None:
    outer = function("outer", "call special", "ret")
    kernel = function("kernel", "movl $7, %edi", "call outer", "movl (%rsi), %edi", "jmp outer")
    text = with_own_copies(listing(kernel, outer, SPECIAL), {"special"})
    assert text is not None
    found = read_listing(text, "kernel.c")
    assert set(found.functions) == {
        "kernel", "outer", "outer.call1", "special", "special.call1",
    }  # fmt: skip
    assert len(sites_on_data(found)) == 1


def test_declarations_of_the_file_and_of_symbols_are_not_repeated() -> None:
    special = SPECIAL.replace(
        "special:\n", 'special:\n\t.file 1 "kernel.c"\n\t.loc 1 3 view .LVU5\n'
    )
    text = with_own_copies(listing(special, TWICE), {"special"})
    assert text is not None
    assert text.count(".file") == text.count("view") == 1
    assert text.count(".loc 1 3") == 2


@pytest.mark.parametrize(
    "functions",
    [
        (SPECIAL, function("kernel", *DATA, "ret")),
        (function("special", "cmpl $7, %edi", "je .L1", ".L1:", "jmp special"), TWICE),
        (SPECIAL, function("kernel", *KNOWN, *DATA, "jmp .L1")),
        (function("special", "cmpl $7, %edi", "je .L2", ".L1:", "ret"),
         function("kernel", *KNOWN, *DATA, ".L2:", "ret")),
        (function("special", ".section .rodata", "cmpl $7, %edi", "je .L1", ".L1:", "ret"), TWICE),
    ],
    ids=["one call", "calls itself", "own label elsewhere", "label of another", "data"],
)  # fmt: skip
def test_what_cannot_be_copied_is_left_as_it_is(functions: tuple[str, ...]) -> None:
    assert with_own_copies(listing(*functions), {"special"}) is None


def test_functions_without_conditions_are_not_copied() -> None:
    assert with_own_copies(listing(SPECIAL, TWICE), set()) is None


def test_copies_without_end_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MOST_LINES", 20)
    with pytest.raises(TooLargeError):
        with_own_copies(listing(SPECIAL, function("kernel", *(KNOWN * 9), "ret")), {"special"})


def many(count: int, kernel: tuple[str, ...]) -> Listing:
    """A listing in which each of many functions has a condition and calls the next one."""
    functions = [
        function(
            f"f{i}", "cmpl $7, %edi", f"je .Lf{i}", f"call f{i + 1}", f".Lf{i}:",
            *("nop",) * 20, "ret",
        )
        for i in range(count)
    ]  # fmt: skip
    return listing(*functions, SPECIAL, function("kernel", *kernel, "call f0", "ret"))


@pytest.mark.parametrize("twice", [False, True])
def test_the_time_is_linear_in_the_number_of_functions(twice: bool) -> None:
    found = many(2000, KNOWN * (1 + twice))
    began = time.process_time()
    text = with_own_copies(found, {*found.functions} - {"kernel"})
    assert time.process_time() - began < 15  # a few tenths of a second
    assert (text is not None) == twice


def test_functions_that_call_each_other_are_left_as_they_are() -> None:
    one = function("one", "call other", "ret")
    other = function("other", "call one", "call special", "ret")
    kernel = function("kernel", "call one", "call other", *KNOWN, "ret")
    text = with_own_copies(listing(kernel, one, other, SPECIAL), {"special"})
    assert text is not None
    assert {name for name in read_listing(text, "kernel.c").functions if "." in name} == {
        "special.call1"
    }


def test_a_function_named_like_an_instruction_is_called_by_its_copy() -> None:
    small = SPECIAL.replace("special", "a")
    kernel = TWICE.replace("special", "a")
    text = with_own_copies(listing(small, kernel), {"a"})
    assert text is not None
    assert "\tcall a.call1\n" in text


BY_ADDRESS = ("leaq special(%rip), %rax", "movq %rax, 8(%rsi)")
CALLS_IT = ("movq 8(%rsi), %rax", "call *%rcx", "ret")
IN_A_TABLE = "\t.section\t.rodata\ntable:\n\t.quad\tspecial\n"


@pytest.mark.parametrize(
    ("kernel", "sites"),
    [
        # called by its name with a known value, and through its address with data
        ((*KNOWN, *BY_ADDRESS, "movl (%rsi), %edi", *CALLS_IT), 1),
        ((*BY_ADDRESS, "movl (%rsi), %edi", *CALLS_IT), 1),
        # only with known values
        ((*KNOWN, *BY_ADDRESS, "movl $3, %edi", *CALLS_IT), 0),
        ((*BY_ADDRESS, "movl $3, %edi", *CALLS_IT), 0),
        # called by a library, with unknown values
        ((*BY_ADDRESS, "movl $3, %edi", "call GOMP_parallel", *CALLS_IT), 1),
        ((*BY_ADDRESS, "movl $3, %edi", "ret"), 1),
    ],
)
def test_what_is_passed_to_a_function_called_through_its_address(
    kernel: tuple[str, ...], sites: int
) -> None:
    found = listing(SPECIAL, function("kernel", *kernel))
    assert [s.instruction.name for s in sites_on_data(found)] == ["je"] * sites


def test_functions_in_tables_are_called_through_their_addresses() -> None:
    code = (*KNOWN, "movl (%rsi), %edi", *CALLS_IT)
    text = "\t.text\n" + SPECIAL + function("kernel", *code)
    assert sites_on_data(read_listing(text, "kernel.c")) == []
    (site,) = sites_on_data(read_listing(text + IN_A_TABLE, "kernel.c"))
    assert site.condition == "e"
