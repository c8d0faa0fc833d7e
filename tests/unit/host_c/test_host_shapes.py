"""Names of workloads on this machine, and those that are refused."""

from __future__ import annotations

import pytest

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.targets.host_c import create_target
from tilewright.targets.host_c.shapes import REGISTERED, parse_shape


@pytest.mark.parametrize("name", REGISTERED)
def test_registered_names_are_shapes(name: str) -> None:
    shape = parse_shape(name)
    assert shape.name == name
    assert shape.workload("host-c").operations == shape.operations > 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("softmax-16", "malformed"),
        ("softmax-0x16", "malformed"),
        ("gemm-16x16", "malformed"),
        ("softmax-99999x99999", "MiB of arrays:"),
        ("attention-9000x1", "MiB of arrays and scores"),
        ("conv-1x8x8x16x16", "malformed. Write conv-NxHxWxCxK-k3s1"),
        ("conv-1x8x8x16x16-k5s1", "malformed"),
        ("conv-1x2048x2048x64x1-k3s1", "MiB of arrays and patches"),
        ("softmax-1x8388608", "sums of 8388608 terms"),
        ("gemm-1x1x1048577", "sums of 1048577 terms"),
        ("attention-1x1048577", "sums of 1048577 terms"),
    ],
)
def test_other_sizes_are_refused_with_one_sentence(name: str, says: str) -> None:
    with pytest.raises(WorkloadError, match=says) as error:
        parse_shape(name)
    assert str(error.value).count("\n") == 0


def test_an_unknown_name_suggests_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        create_target().open("sotfmax-256x1024", {})
