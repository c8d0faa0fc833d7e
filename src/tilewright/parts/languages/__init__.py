"""The languages that kernels are written in; a target names one in its brief."""

from __future__ import annotations

from dataclasses import replace

from tilewright.core.records import KernelLanguage
from tilewright.core.templates import CALLS, MACROS
from tilewright.parts.languages import c, python

C = KernelLanguage(
    name="C",
    file="kernel.c",
    fence="c",
    comment="//",
    lexer="c",
    normal_form=c.normal_form,
    keywords=c.KEYWORDS,
    templates=MACROS,
)
CUDA = KernelLanguage(
    name="CUDA C++",
    file="kernel.cu",
    fence="cuda",
    comment="//",
    lexer="cuda",
    normal_form=c.normal_form_of_cuda,
    keywords=c.KEYWORDS_OF_CUDA,
    templates=MACROS,
)
PYTHON = KernelLanguage(
    name="Python",
    file="kernel.py",
    fence="python",
    comment="#",
    lexer="python",
    normal_form=python.normal_form,
    keywords=python.KEYWORDS,
    templates=CALLS,
)
NKI = replace(PYTHON, name="NKI", marks=(r"^[ \t]*@[\w.]*jit\b", r"^def[ \t]+kernel\b", r"^def\b"))
"""The language NKI, which is Python with instructions of AWS Trainium. A kernel may have any
name.
"""
TRITON = replace(PYTHON, name="Triton")
"""Python with kernels of Triton."""
KERNELBENCH = replace(PYTHON, name="KernelBench", entry="ModelNew", templates=MACROS)
"""Python in KernelBench's form. The CUDA source in it may leave parameters open."""
