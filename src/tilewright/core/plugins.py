"""Finds targets, proposers and strategies, including the built-in ones, by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.files import read_toml
from tilewright.core.records import TargetBrief
from tilewright.core.roles import Configurable, Proposer, SearchStrategy, Target
from tilewright.core.text import listed


def _entries(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group. Read again only if a folder of the import path has changed,
    because reading takes milliseconds."""
    return _read_entries(group, tuple((place, _changed_at(place)) for place in sys.path))


def _changed_at(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _read_entries(group: str, path: tuple[tuple[str, int], ...]) -> Sequence[EntryPoint]:
    return tuple(entry_points(group=group))


def target_names() -> list[str]:
    """The names of all installed targets, with only one name for each target."""
    names = sorted(e.name for e in _entries("tilewright.targets"))
    return [name for name in names if _installed(name).name == name]


def is_target(name: str) -> bool:
    """Whether a target of this name is installed."""
    return any(entry.name == name for entry in _entries("tilewright.targets"))


def load_target(name: str) -> Target:
    """The installed target with this name, or the target that the TOML file at this path describes.

    `ConfigurationError` says what is wrong with the file.
    """
    return _described(Path(name)) if name.endswith(".toml") else _installed(name)


def _described(file: Path) -> Target:
    """The target that the file describes; the file is read by the package of its base target."""
    try:
        kind = read_toml(file).get("target")
    except OSError as error:
        raise ConfigurationError(
            f"target file {file} cannot be read ({error.strerror}). Give an existing .toml file."
        ) from error
    if not isinstance(kind, str) or kind.endswith(".toml"):
        raise ConfigurationError(
            f"target file {file} does not say which target it configures. Add a line such as "
            'target = "gemmini".'
        )
    target = _installed(kind)
    if not isinstance(target, Configurable):
        raise ConfigurationError(
            f"target file {file} configures {kind}, but this target has only one configuration. "
            "Give the target's name in place of the file."
        )
    return target.configured(file)


@cache
def _installed(name: str) -> Target:
    """The target with this name, whose package is imported in this call."""
    for entry in _entries("tilewright.targets"):
        if entry.name == name:
            return cast(Target, entry.load()())
    known = [e.name for e in _entries("tilewright.targets")]
    hint = "You can also give the path of a .toml file that describes a target."
    raise UnknownNameError("target", name, known, hint)


def load_proposer(name: str) -> Proposer:
    """A new proposer with this name, whose package is imported in this call."""
    return cast(Proposer, _loaded("proposer", "tilewright.proposers", name)())


def load_proposers(names: Sequence[str], brief: TargetBrief) -> list[Proposer]:
    """New proposers with these names, for kernels of a target.

    Raises `UnknownNameError` if a proposer is not installed, and `ConfigurationError` if it does
    not support the target's language.
    """
    known = [entry.name for entry in _entries("tilewright.proposers")]
    for name in names:
        if name not in known:
            hint = (
                "You can also name a language model: PROVIDER/MODEL (for instance "
                "openai/gpt-5.5), command:PROGRAM or mailbox:FOLDER."
            )
            raise UnknownNameError("proposer", name, known, hint)
    proposers = [load_proposer(name) for name in names]
    for proposer in proposers:
        languages = getattr(proposer, "languages", (brief.language.name,))
        if brief.language.name not in languages:
            raise ConfigurationError(
                f"proposer {proposer.name!r} writes {listed(languages)} only, and kernels of "
                f"{brief.name} are written in {brief.language.name}. Choose another proposer with "
                "--proposer, for instance a language model."
            )
    return proposers


def load_strategy(settings: Settings) -> SearchStrategy:
    """The search strategy that the settings name, whose package is imported in this call."""
    make = _loaded("strategy", "tilewright.strategies", settings.strategy)
    return cast(SearchStrategy, make(settings))


def _loaded(kind: str, group: str, name: str) -> Callable[..., object]:
    found = {e.name: e for e in _entries(group)}
    if name not in found:
        raise UnknownNameError(kind, name, found)
    return cast("Callable[..., object]", found[name].load())
