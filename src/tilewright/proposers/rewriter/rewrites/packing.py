"""Packs blocks into words, which the core computes in fewer instructions."""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.words import bases
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine


def pack_blocks(kernel: Kernel, machine: Machine) -> Kernel:
    """Pack the blocks in commands into words that the core keeps in registers.

    Before: `for k preload(SPAD(4 * k), ACC(0), 4, 4, 4, 4);`
    After:  `b = BLOCK(SPAD(0), 4, 4); c = BLOCK(ACC(0), 4, 4); for k preload_blocks(b + 4 * k, c);`
    """
    words = machine.words
    if words is None:
        raise NotApplicable("no command takes packed blocks")
    if kernel.words is not None:
        raise NotApplicable("the blocks are already packed")
    names = {words.macro, *(form.name for form in words.forms.values())}
    if names & set(re.findall(r"\w+", kernel.before + kernel.after)):
        raise NotApplicable("the file defines names that are needed for packed blocks")
    if not bases(kernel.body, words):
        raise NotApplicable("no command takes a packed block")
    return replace(kernel, words=words)
