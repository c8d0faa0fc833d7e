"""The rewriter says which lines keep a kernel from being read, and why."""

from __future__ import annotations

from dataclasses import replace

import nki_kernels as world
import pytest

from tilewright.core.errors import InputError
from tilewright.core.records import LeftAlone, Workload
from tilewright.parts.languages import PYTHON
from tilewright.proposers.builtin import create_proposer
from tilewright.proposers.nki.reading.ignored_code import unread
from tilewright.tools.rewriting import require_readable, rewrites

SOURCE = """import nki.isa as nisa
import nki.language as nl


def kernel(x):
    while True:
        nisa.dma_copy(dst=x, src=x)
    nisa.unheard_of(dst=x, version=nisa.get_nc_version())
"""


@pytest.mark.parametrize("package", ["nki", "neuronxcc.nki"])
def test_each_line_is_named_with_its_reason(package: str) -> None:
    text = "nisa.unheard_of(dst=x, version=nisa.get_nc_version())"
    assert unread(SOURCE.replace("import nki.", f"import {package}.")) == [
        LeftAlone(8, text, "nisa.unheard_of is not understood")
    ]


def test_what_is_no_python_is_named() -> None:
    assert unread("def kernel(:") == [LeftAlone(1, "def kernel(:", "this is not valid Python")]
    workload = Workload("w", "trainium", (), 1)
    assert create_proposer().left_alone(world.TARGET.brief(), SOURCE, workload) == unread(SOURCE)


def test_kernels_of_this_project_have_no_such_lines() -> None:
    for name in world.SMALL:
        assert unread(world.opened(name).start) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("nl.store(y, nl.load(a)[nl.load(g)])", "kernel.py:8: err_"),
        (
            "c = np.array([[float(i * j) for i in range(128)] for j in range(128)])\n"
            "    nl.store(y[0:128, 0:128], nl.load(nl.shared_constant(c)))",
            "kernel.py:9: the rewriter does not read this: an array of constants with a long ",
        ),
    ],
)
def test_what_no_walk_reads_is_refused_with_its_line(body: str, reason: str) -> None:
    source = (
        "import numpy as np\nimport neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n\n"
        "def kernel(a, g):\n    y = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
        f"    {body}\n    return y\n"
    )
    workload = world.opened("rmsnorm-256x512").workload
    with pytest.raises(InputError) as caught:
        rewrites(source, world.TARGET.brief(), workload)
    assert str(caught.value).startswith(reason)


def test_python_of_other_targets_is_not_taken_for_nki() -> None:
    brief = replace(world.TARGET.brief(), language=PYTHON)
    with pytest.raises(InputError, match="written in Python, and the rewriter reads C and NKI"):
        require_readable(brief)
