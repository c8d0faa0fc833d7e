"""Loads that leave their burst for the loop that uses them: which stay, and when none may go."""

from __future__ import annotations

import pytest
from byte_model import convolution_is_right
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.naive import naive_convolution

SETTINGS = (
    "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0); "
    "config_ld(16, 1.0f, 16, 0); config_st(16);"
)
LOADS = "for (int v = 0; v < 9; v++) mvin(&A[16 * v][0], SPAD(16 * v), 16, 16);"


def product(row: str, acc: str = "ACC(0)") -> str:
    return (
        f"preload(SPAD(4096), {acc}, 16, 16, 16, 16); "
        f"compute_preloaded(SPAD({row}), NONE, 16, 16, 16, 16);"
    )


def using(body: str) -> str:
    return f"for (int y = 0; y < 8; y++) {{ {body} mvout(&C[16 * y][0], ACC(0), 16, 16); }}"


def staggered(machine: Machine, text: str) -> str:
    source = (
        "void kernel(const int8_t A[144][16], int8_t C[144][16]) "
        f"{{ {SETTINGS} mvin(&C[0][0], SPAD(4096), 16, 16); {text} }}"
    )
    before = simplify(lift(source, machine))
    after = Step.parse("stagger v").apply(before, machine)
    loads = [[c for c in trace(k.body) if c[0] == "mvin"] for k in (before, after)]
    others = [[c for c in trace(k.body) if c[0] != "mvin"] for k in (before, after)]
    assert sorted(loads[0], key=str) == sorted(loads[1], key=str)
    assert others[0] == others[1]
    return emit(after)


def test_what_an_iteration_uses_is_loaded_in_the_one_before(machine: Machine) -> None:
    found = staggered(machine, LOADS + using(product("16 * y") + product("16 * y + 16")))
    assert "for (int v = 0; v < 2; v++)" in found
    assert "if (y + 2 < 9)" in found


def test_a_loop_with_a_step_loads_as_many_at_once(machine: Machine) -> None:
    loop = f"for (int y = 0; y < 8; y += 2) {{ {product('16 * y')} {product('16 * y + 16')} }}"
    found = staggered(machine, LOADS.replace("v < 9", "v < 8") + loop)
    assert "for (int v = 0; v < 2; v++)" in found
    assert "for (int vv = y + 2; " in found


def test_other_loads_may_stand_between(machine: Machine) -> None:
    between = "mvin(&A[0][0], ACC(64), 16, 16);"
    loads = LOADS.replace("v < 9", "v < 8")
    assert "if (y + 1 < 8)" in staggered(machine, loads + between + using(product("16 * y")))


EIGHT = LOADS.replace("v < 9", "v < 8")
"""Loads of as many pieces as there are iterations."""
ALONE = f"for (int y = 0; y < 8; y++) {{ {product('16 * y')} }}"
"""A loop that uses the pieces and stores nothing."""


def test_loads_are_issued_after_products_that_do_not_need_them(machine: Machine) -> None:
    between = f"for (int x = 0; x < 4; x++) {{ {product('2048')} }}"
    between = "mvin(&A[0][0], SPAD(2048), 16, 16);" + between
    found = staggered(machine, EIGHT + between + using(product("16 * y")))
    assert "if (y + 1 < 8)" in found
    assert found.index("compute_preloaded(SPAD(2048)") < found.index("mvin(&A[0][0], SPAD(0)")


def test_a_few_more_pieces_are_loaded_before_a_shorter_loop(machine: Machine) -> None:
    """Each iteration then loads one piece, and no iteration loads two."""
    short = using(product("16 * y")).replace("y < 8", "y < 7")
    found = staggered(machine, LOADS + short)
    assert "for (int v = 0; v < 2; v++)" in found
    assert "mvin(&A[16 * y + 32][0]" in found


@pytest.mark.parametrize(
    "text",
    [
        EIGHT + "fence();" + ALONE,
        EIGHT + "helper();" + ALONE,
        EIGHT + product("16", "ACC(16)") + ALONE,  # read between
        EIGHT.replace("&A", "&C") + "mvout(&C[16][0], ACC(0), 16, 16);" + ALONE,  # stored between
        LOADS + using(product("128 - 16 * y")),  # used from the end
        LOADS + using(product("16 * y") + product("128")),  # the last one in every iteration
        LOADS + "mvin(&A[0][0], SPAD(32), 16, 16);" + using(product("16 * y")),  # loaded again
        LOADS + "config_ld(32, 1.0f, 16, 0);" + using(product("16 * y")),  # other settings
        LOADS + "mvout(&C[0][0], SPAD(64), 16, 16);" + using(product("16 * y")),  # used between
        LOADS + using("mvin(&A[0][0], SPAD(128), 16, 16);" + product("16 * y")),  # written inside
        LOADS.replace("&A", "&C") + using(product("16 * y")),  # stored in the loop
        LOADS + using("helper();" + product("16 * y")),
        LOADS,
    ],
)
def test_loads_stay_where_order_matters(machine: Machine, text: str) -> None:
    with pytest.raises(NotApplicable):
        staggered(machine, text)


def test_a_convolution_stays_right(machine: Machine) -> None:
    shape = Convolution(2, 6, 6, 16, 16, size=3, stride=1, padding=1)
    kernel = simplify(lift(naive_convolution(shape, create_target().instance), machine))
    for text in ("resident weights n before", "block-load input y", "stagger yy"):
        kernel = Step.parse(text).apply(kernel, machine)
    assert convolution_is_right(kernel, shape)
