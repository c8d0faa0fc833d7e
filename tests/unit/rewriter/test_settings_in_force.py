"""Which settings may be in force at a move, and what that allows in kernels of several stages."""

from __future__ import annotations

import pytest
from byte_model import same

from tilewright.proposers.rewriter.analysis.move_settings import settings_reaching
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import commands
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

HEAD = (
    "void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[64][64],"
    " int8_t D[64][128])"
)
STORE = "mvout(&C[0][0], ACC(0), 16, 16);"
REACHING = {
    f"config_st(1); {STORE} config_st(2);": {1},
    f"config_st(1); config_st(2); {STORE}": {2},
    f"config_st(1); for (int i = 0; i < 4; i++) {{ {STORE} config_st(2); }}": {1, 2},
    f"config_st(1); for (int i = 0; i < 4; i++) {{ for (int j = 0; j < 4; j++) {{ {STORE} }} "
    f"config_st(2); }}": {1, 2},
    f"config_st(1); for (int i = 0; i < A[0][0]; i++) {{ config_st(2); }} {STORE}": {1, 2},
    f"for (int i = 0; i < 4; i++) {{ if (i > 1) {{ config_st(1); }} else {{ config_st(2); }} "
    f"{STORE} }}": {1, 2},
    f"config_st(1); for (int i = 0; i < 4; i++) {{ if (i > 1) {{ config_st(2); }} "
    f"{STORE} }}": {1, 2},
    f"config_ld(3, 1.0f, 16, 0); {STORE}": set(),
}  # fmt: skip


@pytest.mark.parametrize("body", REACHING)
def test_settings_that_may_be_in_force(machine: Machine, body: str) -> None:
    kernel = lift(f"{HEAD} {{ {body.replace('A[0][0]', '4')} }}", machine)
    (store,) = (c for c in commands(kernel.body) if machine.unit(c.name) == "store")
    found = {s.operands[0] for s in settings_reaching(kernel, machine, store)}
    assert found == {Expr(stride) for stride in REACHING[body]}


def test_each_id_has_a_setting_of_its_own(machine: Machine) -> None:
    body = "config_ld(1, 1.0f, 16, 0); config_ld(2, 1.0f, 16, 1); mvin(&A[0][0], SPAD(0), 16, 16);"
    kernel = lift(f"{HEAD} {{ {body} mvin2(&A[0][0], SPAD(0), 16, 16); }}", machine)
    loads = [c for c in commands(kernel.body) if machine.unit(c.name) == "load"]
    strides = [[s.operands[0] for s in settings_reaching(kernel, machine, c)] for c in loads]
    assert strides == [[Expr(1)], [Expr(2)]]


def stage(left: str, result: str, stride: int) -> str:
    return f"""
  config_st({stride});
  for (int i = 0; i < 64; i += 16)
    for (int j = 0; j < 64; j += 16) {{
      mvin3(0, ACC(0), 16, 16);
      for (int k = 0; k < 64; k += 16) {{
        mvin(&{left}[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }}
      mvout(&{result}[i][j], ACC(0), 16, 16);
    }}
  fence();
"""


@pytest.mark.parametrize("steps", ["retile i 2", "retile j#2 2", "raise; retile i 2; retile i#2 4"])
def test_stages_that_store_by_different_strides_get_larger_tiles(
    machine: Machine, steps: str
) -> None:
    settings = (
        "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0); config_ld(64, 1.0f, 16, 0);"
        "config_ld(64, 1.0f, 16, 1); config_ld(0, 1.0f, 16, 2);"
    )
    kernel = read(f"{HEAD} {{ {settings} {stage('A', 'C', 64)} {stage('C', 'D', 128)} }}", machine)
    after = kernel
    for step in steps.split("; "):
        after = Step.parse(step).apply(after, machine)
    assert same(kernel, after)
