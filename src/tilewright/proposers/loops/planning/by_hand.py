"""Lists the rewrites that apply to a kernel, and carries out those that a user chooses."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief, Workload
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step, steps_of
from tilewright.proposers.loops.reading import lanes_of, read_kernel, threads_of

MOST_TEXT = 1 << 22
"""Maximum number of characters of a kernel times the factor of a step, which is about the size of
the result."""


def applicable(source: str, target: TargetBrief, workload: Workload) -> Iterator[tuple[Step, str]]:
    """Each step that applies, with a description. Raises `InputError`."""
    kernel, lanes = read_kernel(source, target, workload), lanes_of(target)
    for technique in TECHNIQUES:
        for step, _ in steps_of(kernel, technique, lanes, threads_of(target)):
            yield step, step.sentence(kernel)


def carried_out(
    source: str, target: TargetBrief, workload: Workload, steps: str
) -> tuple[str, list[str]]:
    """The source after steps separated by `;`, with a description of each. Raises `InputError`."""
    kernel = read_kernel(source, target, workload)
    done = []
    for text in filter(None, (part.strip() for part in steps.split(";"))):
        try:
            step = Step.parse(text)
            if step.technique == "share" and step.factor > threads_of(target):
                raise InputError(
                    f"step {text!r} asks for {step.factor} threads, but loops of {target.name} may "
                    f"be shared among {threads_of(target)}: declare more in a target file, if its "
                    "compiler has OpenMP."
                )
            _require_room(step, kernel)
            after = step.apply(kernel)
        except ValueError:
            raise InputError(
                f"step {text!r} is not known. Give a technique ({', '.join(TECHNIQUES)}), the "
                'number of a loop and a factor, like "vectorise 2 16"; --list shows them.'
            ) from None
        except NotApplicableError as error:
            raise InputError(f"step {text!r} does not apply: {error}.") from error
        done.append(f"{step}: {step.sentence(kernel)}")
        kernel = after
    return emit(kernel), done


def _require_room(step: Step, kernel: Kernel) -> None:
    """`InputError` if the kernel would be copied so often that no compiler could compile it."""
    if max(step.factor, 1) * len(emit(kernel)) > MOST_TEXT:
        raise InputError(
            f"step '{step}' would make a kernel of more than {MOST_TEXT >> 20} million characters: "
            "give a smaller factor."
        )
