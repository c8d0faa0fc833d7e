"""Sizes in the names of workloads are ASCII digits: others would give one workload two names."""

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
    with pytest.raises(WorkloadError, match="malformed"):
        open_task(name, {})
