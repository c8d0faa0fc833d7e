"""Finds targets and proposers through entry points; built-ins come in by the same door."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.roles import Configurable, Proposer, Target


def target_names() -> list[str]:
    """Names of all installed targets, without further names of the same target."""
    names = sorted(e.name for e in entry_points(group="tilewright.targets"))
    return [name for name in names if _installed(name).name == name]


def load_target(name: str) -> Target:
    """The installed target of this name, or the one that a TOML file of this path describes.

    `ConfigurationError` says what is wrong with the file.
    """
    return _described(Path(name)) if name.endswith(".toml") else _installed(name)


def _described(file: Path) -> Target:
    """The target that an instance of is described; its package knows how to read the file."""
    try:
        kind = tomllib.loads(file.read_text(encoding="utf-8")).get("target")
    except OSError as error:
        raise ConfigurationError(f"target file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"target file {file} is not valid TOML: {error}.") from error
    if not isinstance(kind, str) or kind.endswith(".toml"):
        raise ConfigurationError(
            f"target file {file} does not say what it describes: add a line like "
            'target = "gemmini".'
        )
    target = _installed(kind)
    if not isinstance(target, Configurable):
        raise ConfigurationError(
            f"target file {file} describes a {kind}, which has no other configurations: name "
            "the target itself."
        )
    return target.configured(file)


@cache
def _installed(name: str) -> Target:
    """The target of this name; its package is imported only now."""
    for entry in entry_points(group="tilewright.targets"):
        if entry.name == name:
            return cast(Target, entry.load()())
    known = [e.name for e in entry_points(group="tilewright.targets")]
    hint = "Or give the path of a .toml file that describes one."
    raise UnknownNameError("target", name, known, hint)


def load_proposer(name: str) -> Proposer:
    """A new proposer of this name; its package is imported only now."""
    found = {e.name: e for e in entry_points(group="tilewright.proposers")}
    if name not in found:
        raise UnknownNameError("proposer", name, found)
    return cast(Proposer, found[name].load()())
