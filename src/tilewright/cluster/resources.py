"""The resources that a machine offers, and those that a search requires.

Both are names, which the scheduler compares: a resource (`cpu`, `gemmini-sim`, `host-c:EPYC 7B13`),
and the versions under which the target would evaluate there (`gemmini@` and their hash).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tilewright.core.errors import TilewrightError
from tilewright.core.plugins import is_target, load_target, target_names
from tilewright.core.records import content_id
from tilewright.core.roles import NeedsResource, RunsOnModels, Target
from tilewright.core.tasks import target_versions, versions_without

ANY_MACHINE = "cpu"


def resource_of(target: Target) -> str:
    """The resource that a machine must have to evaluate kernels of this target."""
    return target.resource if isinstance(target, NeedsResource) else ANY_MACHINE


def stamp(target: Target, versions: Mapping[str, str]) -> str:
    """A name that is the same for workers with equal versions."""
    return f"{target.name}@{content_id(json.dumps(dict(versions), sort_keys=True))}"


def stamp_of_any_model(target: Target, versions: Mapping[str, str]) -> str | None:
    """A name that is the same for workers whose versions differ only in the model of the device.
    None if the target's kernels need one model.
    """
    if not isinstance(target, RunsOnModels):
        return None
    return stamp(target, {**versions_without(versions, target.model_versions), "model": "any"})


def offered() -> dict[str, Mapping[str, str]]:
    """The resources and stamps that this machine offers, each with its versions.

    Targets whose toolchain is not installed are left out.
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
        if (any_model := stamp_of_any_model(target, versions)) is not None:
            found[any_model] = {}
    return found


def needed(target: Target) -> list[str]:
    """The names that a worker must offer to take part in a run of this target.

    If a file describes the target, its versions are compared when a worker opens the task, because
    a worker does not know them before.
    """
    names = [resource_of(target)]
    if is_target(target.name):
        versions = target_versions(target)
        if versions == target_versions(load_target(target.name)):
            names.append(stamp(target, versions))
    return names
