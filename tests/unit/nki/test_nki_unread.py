"""The rewriter says which lines keep a kernel from being read, and why."""

from __future__ import annotations

from dataclasses import replace

import nki_kernels as world
import pytest

from tilewright.core.errors import InputError
from tilewright.core.records import LeftAlone
from tilewright.parts.languages import PYTHON
from tilewright.proposers.builtin import create_proposer
from tilewright.proposers.nki.unread import OLD, unread
from tilewright.tools.rewriting import require_readable, rewrites

SOURCE = """import nki.isa as nisa
import nki.language as nl


def kernel(x):
    while True:
        nisa.dma_copy(dst=x, src=x)
    nisa.unheard_of(dst=x)
"""


def test_each_line_is_named_with_its_reason() -> None:
    assert unread(SOURCE) == [
        LeftAlone(6, "while True:", "`while` is not understood"),
        LeftAlone(8, "nisa.unheard_of(dst=x)", "nisa.unheard_of is not understood"),
    ]
    assert unread("def kernel(:") == [LeftAlone(1, "def kernel(:", "this is no Python")]
    assert create_proposer().left_alone(world.TARGET.brief(), SOURCE) == unread(SOURCE)


def test_kernels_of_this_project_have_no_such_lines() -> None:
    for name in world.SMALL:
        assert unread(world.opened(name).start) == []


def test_the_older_language_is_refused_by_its_import() -> None:
    source = (
        "import numpy as np\nimport neuronxcc.nki.language as nl\n\n\ndef kernel(a, g):\n    pass\n"
    )
    assert unread(source) == [LeftAlone(2, "import neuronxcc.nki.language as nl", OLD)]
    arguments = world.opened("rmsnorm-256x512").workload.arguments
    with pytest.raises(InputError, match=r"kernel.py:2: .*NKI 1 are not read"):
        rewrites(source, world.TARGET.brief(), arguments)


def test_python_of_other_targets_is_not_taken_for_nki() -> None:
    brief = replace(world.TARGET.brief(), language=PYTHON)
    with pytest.raises(InputError, match="written in Python, and the rewriter reads C and NKI"):
        require_readable(brief)
