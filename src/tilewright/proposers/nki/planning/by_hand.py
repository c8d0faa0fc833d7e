"""Rewrites that a user chooses: lists those that apply to a kernel, and carries them out."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.core.errors import InputError
from tilewright.core.records import KernelLanguage, Workload
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.moves import cost_of
from tilewright.proposers.nki.planning.steps import TECHNIQUES, Step, steps_of
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read
from tilewright.proposers.nki.reading.values import UnsupportedError


def applicable(
    source: str, workload: Workload, language: KernelLanguage
) -> Iterator[tuple[Step, str]]:
    """Each step that applies, with a description. Raises `InputError`."""
    kernel = _read(source, workload, language)
    for technique in TECHNIQUES:
        for step, _ in steps_of(kernel, technique):
            yield step, step.sentence


def carried_out(
    source: str, workload: Workload, language: KernelLanguage, steps: str
) -> tuple[str, list[str]]:
    """The source after steps separated by `;`, with a description of each. Raises `InputError`.

    A technique without arguments is applied where the estimate is lowest afterwards."""
    kernel, done = _read(source, workload, language), []
    for text in filter(None, (part.strip() for part in steps.split(";"))):
        try:
            step = _best(kernel, text) if text in TECHNIQUES else Step.parse(text)
            kernel = step.apply(kernel)
        except ValueError:
            raise InputError(
                f"step {text!r} is not known. Give a technique ({', '.join(TECHNIQUES)}) and its "
                'arguments, like "hoist right m"; --list shows them.'
            ) from None
        except NotApplicableError as error:
            raise InputError(f"step {text!r} does not apply: {error}.") from error
        done.append(f"{step}: {step.sentence}")
    return print_kernel(kernel), done


def _best(kernel: Kernel, technique: str) -> Step:
    """The step of a technique with the lowest estimate."""
    found = [(cost_of(after), step) for step, after in steps_of(kernel, technique)]
    if not found:
        raise NotApplicableError("there is no place for it")
    return min(found, key=lambda one: one[0])[1]


def _read(source: str, workload: Workload, language: KernelLanguage) -> Kernel:
    try:
        return read(source, workload, language)
    except UnsupportedError as error:
        place = f"kernel.py:{error.line}: " if error.line else ""
        raise InputError(f"{place}the rewriter does not read this: {error.reason}.") from error
