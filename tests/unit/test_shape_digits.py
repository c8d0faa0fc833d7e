"""Sizes in the names of workloads: their digits, and the largest size."""

from __future__ import annotations

import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.tasks import open_task


@pytest.mark.parametrize(
    "name",
    [
        "gemmini:gemm-\uff16\uff14x64x64",
        "gemmini:conv-\uff14x56x56x64x64-k3s1",
        "gemmini-fp32-4x4:tinympc-forward-\uff112x4x10",
        "host-c:gemm-64x\uff16\uff14x64",
        "amx-int8:gemm-64x64x\uff16\uff14",
        "amx-int8:conv-1x\uff18x8x16x16-k3s1",
        "trainium:gemm-\uff1128x128x512",
    ],
)
def test_other_digits_are_malformed(name: str) -> None:
    """They would give one workload two names."""
    with pytest.raises(WorkloadError, match="malformed"):
        open_task(name, {})


@pytest.mark.parametrize(
    "pattern",
    [
        "cuda:gemm-{}x8x8",
        "host-c:gemm-{}x8x8",
        "host-c:conv-1x{}x8x16x16-k3s1",
        "amx-int8:gemm-64x64x{}",
        "amx-int8:conv-{}x8x8x64x16-k3s1",
        "trainium:gemm-128x128x{}",
    ],
)
def test_the_message_on_a_size_names_the_limit(pattern: str) -> None:
    for size in ("1000000000", "9" * 5000):
        with pytest.raises(WorkloadError, match="no size may be larger than 999999999") as error:
            open_task(pattern.format(size), {})
        assert len(str(error.value)) < 400
    with pytest.raises(WorkloadError) as error:
        open_task(pattern.format("999999999"), {})
    assert "no size may be" not in str(error.value)
    assert "malformed" not in str(error.value)
