"""Outside Linux no sandbox contains a kernel: it is refused with the reason."""

from __future__ import annotations

import sys

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.plugins import load_target
from tilewright.executors import usable_cores


@pytest.mark.parametrize(
    ("target", "workload"), [("host-c", "softmax-256x1024"), ("amx-int8", "gemm-64x64x64")]
)
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_native_kernels_are_refused_with_the_reason(
    target: str, workload: str, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = load_target(target)
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(ToolchainMissingError, match=r"outside Linux .* container"):
        opened.open(workload, {"input_seed": 1})


def test_no_kernel_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ToolchainMissingError, match=r"only on Linux.* container"):
        usable_cores()


def test_doctor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target("host-c")
    monkeypatch.setattr(sys, "platform", "darwin")
    ((_, usable, text),) = target.doctor()
    assert usable is False
    assert "outside Linux" in text
