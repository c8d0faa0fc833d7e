"""Conditions that an earlier condition on the same flags implies."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tilewright.native.conditions.blocks import blocks_of
from tilewright.native.conditions.effects import CONDITIONS
from tilewright.native.conditions.implied import implied
from tilewright.native.conditions.listing import read_listing

LE = ["cmovle"]


def found(*code: str) -> list[str]:
    """The mnemonics of the conditions that are implied."""
    lines = (line if line.endswith(":") else f"\t{line}" for line in code)
    text = "\n".join(["\t.type\tkernel, @function", "kernel:", *lines, "\t.size\tkernel, 1", ""])
    function = read_listing(text, "kernel.c").functions["kernel"]
    return [function.code[at].name for at in sorted(implied(function, blocks_of(function)))]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        # two expressions of a source that ask the same
        (("vcomiss %xmm1, %xmm0", "jbe .L1", "ret", ".L1:", "ja .L2", ".L2:", "ret"), ["ja"]),
        (("cmpl %eax, %ecx", "jl .L1", "je .L1", "jg .L1", ".L1:", "ret"), ["jg"]),
        (
            ("cmpl %eax, %ecx", "jg .L1", "movl %edx, %esi", "cmovle %eax, %ecx", ".L1:", "ret"),
            ["cmovle"],
        ),
        (("ucomiss %xmm1, %xmm0", "jp .L1", "jne .L1", "jae .L1", ".L1:", "ret"), ["jae"]),
        (("testl %eax, %eax", "jb .L1", ".L1:", "ret"), ["jb"]),
        # the same on both ways
        (
            ("cmpl %eax, %ecx", "jbe .L1", "je .L1", "jmp .L2", ".L1:", "ja .L2", ".L2:", "ret"),
            ["je", "ja"],
        ),
    ],
)
def test_a_condition_is_implied(code: tuple[str, ...], names: list[str]) -> None:
    assert found(*code) == names


@pytest.mark.parametrize(
    "code",
    [
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "jl .L2", ".L2:", "ret"),  # another question
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "jb .L2", ".L2:", "ret"),
        # other flags
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "cmpl $3, %edx", "ja .L2", ".L2:", "ret"),
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "addl $3, %edx", "ja .L2", ".L2:", "ret"),
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "shrl $3, %edx", "ja .L2", ".L2:", "ret"),
        (
            "cmpl %eax, %ecx",
            "jbe .L1",
            "ret",
            ".L1:",
            "vptest %ymm0, %ymm1",
            "ja .L2",
            ".L2:",
            "ret",
        ),
        ("cmpl %eax, %ecx", "jbe .L1", "ret", ".L1:", "call f", "ja .L2", ".L2:", "ret"),
        # another way leads there
        ("cmpl %eax, %ecx", "jbe .L1", "cmpl $3, %edx", ".L1:", "ja .L2", ".L2:", "ret"),
        (
            *("cmpl %eax, %ecx", "jbe .L1", "jmp .L2"),
            *(".L1:", "cmpl $3, %edx", ".L2:", "ja .L3", ".L3:", "ret"),
        ),
        ("cmpl %eax, %ecx", ".L1:", "ja .L2", "cmpl $3, %edx", "jbe .L1", ".L2:", "ret"),
        ("cmpl %eax, %ecx", "jbe .L1", "jmp *%rax", ".L1:", "ja .L2", ".L2:", "ret"),
        # a number that is none
        ("ucomiss %xmm1, %xmm0", "jne .L1", "jb .L1", ".L1:", "ret"),
    ],
)
def test_a_condition_is_not_implied(code: tuple[str, ...]) -> None:
    assert found(*code) == []


def test_a_condition_implies_itself_and_no_more_than_it_must() -> None:
    """All pairs of conditions, compared with what the flags of real comparisons are."""
    flags = [dict(zip("cpzso", bits, strict=True)) for bits in itertools.product((0, 1), repeat=5)]
    tests: dict[str, Callable[[dict[str, int]], int]] = {
        **dict.fromkeys(("b", "c", "nae"), lambda f: f["c"]),
        **dict.fromkeys(("e", "z"), lambda f: f["z"]),
        **dict.fromkeys(("be", "na"), lambda f: f["c"] or f["z"]),
        "s": lambda f: f["s"], "o": lambda f: f["o"],
        **dict.fromkeys(("p", "pe"), lambda f: f["p"]),
        **dict.fromkeys(("l", "nge"), lambda f: f["s"] != f["o"]),
        **dict.fromkeys(("le", "ng"), lambda f: f["z"] or f["s"] != f["o"]),
    }  # fmt: skip
    opposites = {"a": "be", "nbe": "be", "ae": "b", "nb": "b", "nc": "b", "ne": "e", "nz": "e",
                 "ns": "s", "no": "o", "np": "p", "po": "p", "ge": "l", "nl": "l", "g": "le",
                 "nle": "le"}  # fmt: skip
    true = {name: {i for i, f in enumerate(flags) if test(f)} for name, test in tests.items()}
    true |= {name: set(range(32)) - true[other] for name, other in opposites.items()}
    assert set(true) == set(CONDITIONS)
    for first, second in itertools.product(CONDITIONS, repeat=2):
        names = found("addl %eax, %ecx", f"j{first} .L1", "ret", ".L1:", f"j{second} .L2", ".L2:")
        is_implied = true[first] <= true[second] or not true[first] & true[second]
        assert names == [f"j{second}"] * is_implied, (first, second)
