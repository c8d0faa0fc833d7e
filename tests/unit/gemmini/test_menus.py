"""Which options each kind of workload is offered: stored texts (`--update-golden` renews them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.records import Workload
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.targets.gemmini import create_fp32_target, create_target

GOLDEN = Path(__file__).parents[2] / "golden" / "menus"


def offered(name: str) -> str:
    target = create_fp32_target() if name.startswith("tinympc") else create_target()
    menu = target.brief().menu_for(target.open(name, {}).workload)
    return "".join(f"{o.id} [{o.technique or 'models only'}]: {o.text}\n" for o in menu)


@pytest.mark.parametrize(
    "name", ["gemm-64x64x64", "conv-1x8x8x16x16-k3s1", "tinympc-forward", "tinympc-backward"]
)
def test_the_menu_of_each_kind_is_the_stored_one(name: str, update_golden: bool) -> None:
    text = offered(name)
    path = GOLDEN / f"{name.partition('-')[0]}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_a_folder_of_ones_own_sees_every_option() -> None:
    brief = create_fp32_target().brief()
    own = Workload("gemmini-fp32-4x4:mine", "gemmini-fp32-4x4", (), 1, source="/home/me/mine")
    assert brief.menu_for(own) == brief.menu
    assert {k for o in brief.menu for k in o.kinds} >= {"conv", "tinympc"}


def test_every_technique_of_every_kind_exists() -> None:
    named = {o.technique for o in create_fp32_target().brief().menu if o.technique}
    assert named <= set(CATALOGUE)
