"""What a machine offers a search, and what a search needs of a machine.

Both are names, which the scheduler compares: a resource (`cpu`, `gemmini-sim`, `host-c:EPYC 7B13`),
and the versions under which the target would evaluate there (`gemmini@` and their hash).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tilewright.core.errors import TilewrightError
from tilewright.core.plugins import is_target, load_target, target_names
from tilewright.core.records import content_id
from tilewright.core.roles import OnMachine, Target
from tilewright.core.tasks import target_versions

ANY_MACHINE = "cpu"


def resource_of(target: Target) -> str:
    """What a machine must have to evaluate kernels of this target."""
    return target.resource if isinstance(target, OnMachine) else ANY_MACHINE


def stamp(target: Target, versions: Mapping[str, str]) -> str:
    """The name under which workers with equal versions are found."""
    return f"{target.name}@{content_id(json.dumps(dict(versions), sort_keys=True))}"


def offered() -> dict[str, Mapping[str, str]]:
    """Resources and stamps of this machine, each with its versions.

    Targets whose toolchain is not here are left out.
    """
    found: dict[str, Mapping[str, str]] = {ANY_MACHINE: {}}
    for name in target_names():
        target = load_target(name)
        try:
            versions = target_versions(target)
        except TilewrightError:
            continue
        found.setdefault(resource_of(target), {})
        found[stamp(target, versions)] = versions
    return found


def needed(target: Target) -> list[str]:
    """What a worker must offer to take part in a run of this target.

    The versions of a target that a file describes are compared when a worker opens the task: no
    worker can name them before.
    """
    names = [resource_of(target)]
    if is_target(target.name):
        versions = target_versions(target)
        if versions == target_versions(load_target(target.name)):
            names.append(stamp(target, versions))
    return names
