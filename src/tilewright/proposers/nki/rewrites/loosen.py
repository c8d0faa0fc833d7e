"""Undoes decisions about engines and memories that a kernel was tuned with.

They fit the sizes of tiles for which they were made. For example, a tile in PSUM cannot become
wider than PSUM, and a copy on a certain engine cannot run where an engine is idle.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, allocated
from tilewright.proposers.nki.ir import Kernel, Op, spliced
from tilewright.proposers.nki.rewrites.engines import on_any_engine
from tilewright.proposers.nki.rewrites.memory import place


def loosen(kernel: Kernel) -> Kernel:
    """The kernel in which only products write to PSUM, and instructions name no engine."""
    made = kernel
    for name, tensor in allocated(kernel.body).items():
        if tensor.memory == "psum":
            try:
                made = place(made, name, "sbuf")
            except NotApplicableError:
                continue  # PE writes it
    for path, op in made.statements():
        if isinstance(op, Op):
            try:
                made = replace(made, body=spliced(made.body, path, (on_any_engine(made, op),)))
            except NotApplicableError:
                continue
    if made == kernel:
        raise NotApplicableError("no instruction names an engine, and only PE writes to PSUM")
    return made
