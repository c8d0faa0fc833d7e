"""Counts operations of a kernel in one call, with a second build whose headers count them.

The counts come from the kernel's own process, so they are used only as feedback.
"""

from __future__ import annotations

import numpy as np

from tilewright.core.records import Argument, Failed
from tilewright.native.evaluator import CountingBuild, Counts, NativeEvaluation
from tilewright.native.machine import off_measuring_cores
from tilewright.parts.case import Case

_COUNTS = "counts of a call"  # no parameter of a kernel has this name


def counted(evaluation: NativeEvaluation, source: str, case: Case) -> Counts:
    """The counts of a kernel on a case; empty if they are not available."""
    build, arguments = evaluation.counting_build, evaluation.workload.arguments
    if build is None or not source:
        return {}
    binary = evaluation.compiled(_counting(source, build, len(arguments)), build.headers)
    if isinstance(binary, Failed):
        return {}
    room = np.zeros(len(build.names), dtype=np.int64)
    argument = Argument(_COUNTS, room.shape, str(room.dtype), "output")
    apart = off_measuring_cores(evaluation.toolchain.threads)
    with apart, evaluation.started(binary, (argument,)) as process:
        process.arrays.place({**case.initial, _COUNTS: room})
        if process.call("measure", evaluation.settings.simulation_timeout_s) is not None:
            return {}
        found = np.frombuffer(process.arrays.outputs_now()[_COUNTS], room.dtype)
    return dict(zip(build.names, map(int, found), strict=True))


def _counting(source: str, build: CountingBuild, arguments: int) -> str:
    """A kernel that calls the given kernel under another name, and then copies the counts to its
    last argument.
    """
    names = [f"argument_{i}" for i in range(arguments)]
    parameters = ", ".join(f"void *{name}" for name in (*names, "counts"))
    return f"""\
#define kernel counted_kernel
{source}
#undef kernel
void kernel({parameters}) {{
  counted_kernel({", ".join(names)});
  for (int i = 0; i < {len(build.names)}; i++)
    ((unsigned long *)counts)[i] = {build.counters}[i];
}}
"""
