"""Parses the names of agents, such as `agent:claude -p?timeout_s=900&evaluations=8`.

Plans and reports contain the name of an agent, so it must not contain a secret.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from urllib.parse import parse_qsl

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.secrets import is_secret_name

PREFIX = "agent:"


@dataclass(frozen=True, slots=True)
class AgentName:
    """A command that works on a kernel, and its limits.

    Attributes:
        name: the whole name, as the user wrote it.
        command: program and arguments.
        timeout_s: seconds for the work on one kernel, without the time spent waiting for
        evaluations. evaluations: number of kernels that it may evaluate; None for a share of the
        run's budget. concurrency: number of agents with this name that run at the same time.
        key_env: the only secret environment variable that it receives. disk_mb: maximum size of its
        folder in MiB.
    """

    name: str
    command: tuple[str, ...]
    timeout_s: int = 1800
    evaluations: int | None = None
    concurrency: int = 2
    key_env: str = ""
    disk_mb: int = 1024


_OPTIONS = tuple(f.name for f in fields(AgentName) if f.name not in ("name", "command"))


def is_agent_name(name: str) -> bool:
    """Whether the name of a proposer has the form of an agent's name."""
    return name.startswith(PREFIX)


def parse_agent(name: str) -> AgentName:
    """The agent with this name; `ConfigurationError` says what is wrong."""
    text, _, query = name.removeprefix(PREFIX).partition("?")
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(
            f"agent {name!r} is not a usable command ({error}). Check its quotes."
        ) from error
    if not command:
        raise ConfigurationError(f"agent {name!r} is incomplete. Write agent:PROGRAM ARGUMENTS.")
    agent = AgentName(name, command)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in _OPTIONS:
            raise UnknownNameError("agent option", key, _OPTIONS, f"It was given in {name!r}.")
        agent = replace(agent, **{key: _value(name, key, value)})  # type: ignore[arg-type]
    return agent


def require_agents(proposers: Sequence[str]) -> None:
    """Raise `ConfigurationError` if the program of an agent among these names is not installed."""
    for agent in (parse_agent(name) for name in proposers if is_agent_name(name)):
        if shutil.which(agent.command[0]) is None:
            raise ConfigurationError(
                f"agent {agent.name} names the program {agent.command[0]!r}, which is not on PATH. "
                "Install the program or give its full path."
            )


def refuse_agents(proposers: Sequence[str]) -> None:
    """Raise `ConfigurationError` for agents in a run whose caller evaluates the kernels one by
    one.
    """
    for name in filter(is_agent_name, proposers):
        raise ConfigurationError(
            f"{name} can only be started by a search. Give it to `tilewright optimize`, or use "
            "other proposers in a loop of your own."
        )


def _value(name: str, key: str, value: str) -> object:
    if key == "key_env":
        if not is_secret_name(value):
            raise ConfigurationError(
                f"key_env={value} of agent {name!r} does not look like the name of a secret. An "
                "agent gets all other variables without key_env, so leave it out."
            )
        return value
    if not (value.isascii() and value.isdigit() and 0 < int(value[:12]) < 10**9):
        raise ConfigurationError(
            f"option {key}={value[:40]} of agent {name!r} is not usable. Give a whole number "
            "above 0."
        )
    return int(value)
