"""The content of a bundle. The type of every part is checked, because a bundle may be forged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.core.codec import from_json, outcome_from_json
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import Measured, Workload

TARGET_FILE = "target-file.toml"
"""Name of a user's target file in a bundle."""
MAX_FILES = 256
MAX_FILES_BYTES = 16 << 20

_OF_OTHER_RECORDS = (
    KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
_TARGET_NAME = re.compile(r"[A-Za-z0-9_-]+")
_WORKLOAD_NAME = re.compile(r"[A-Za-z0-9_-]+:[^/\0]+")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result that a bundle states, and the data that are needed to repeat the evaluation.

    `task` is a registered name, or the name of the folder whose texts are `files`. `settings`
    determine what is evaluated, but contain no time limits, because those of the verifying machine
    apply.
    """

    task: str
    settings: Settings
    versions: Mapping[str, str]
    workload: Workload
    files: Mapping[str, str]
    sources: tuple[str, str]
    outcomes: tuple[Measured, Measured]

    @property
    def is_folder(self) -> bool:
        """Whether the task is a kernel folder, whose files the bundle contains."""
        return "workload.toml" in self.files

    @property
    def brings_code(self) -> bool:
        """Whether a verification would run code of the bundle outside any sandbox."""
        return any(name.endswith(".py") for name in self.files)

    @property
    def texts(self) -> str | None:
        """The files that determine what is correct and what is measured, if the bundle contains
        any.
        """
        texts = [f"# {name}\n{text}" for name, text in self.files.items()]
        return "\n".join(texts) or None


def read_evidence(document: Mapping[str, Any]) -> Evidence:
    """The evidence in a bundle's document; `InputError` if its records are not those of this
    version.
    """
    try:
        run = document["run"]
        settings = Settings.from_recorded(from_json(run["settings"]))
        files = _files(document["files"])
        return Evidence(
            task=_task(run["task"], files),
            settings=Settings(
                target=_target(settings.target, files),
                target_settings={
                    _text(k): _text(v) for k, v in dict(settings.target_settings).items()
                },
            ),
            versions={_text(k): _text(v) for k, v in dict(run["versions"]).items()},
            workload=_workload(from_json(document["workload"])),
            files=files,
            sources=(_text(document["start"]), _text(document["winner"])),
            outcomes=(
                _measured(document["start_outcome"]),
                _measured(document["winner_outcome"]),
            ),
        )
    except InputError:
        raise
    except _OF_OTHER_RECORDS as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(
            f"the bundle's records are not those of this version of tilewright ({found}). Verify "
            "it with the version that wrote it."
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a value of type {type(value).__name__} is in the place of a string")
    value.encode()  # halves of character pairs are no text
    return value


def _task(value: object, files: Mapping[str, str]) -> str:
    task = _text(value)
    if "workload.toml" not in files and not _WORKLOAD_NAME.fullmatch(task):
        raise InputError(
            f"the bundle's task {task[:100]!r} is not a registered workload, and the bundle "
            "contains no files of it. Do not verify a bundle that names a folder of this machine."
        )
    return task


def _target(value: object, files: Mapping[str, str]) -> str | None:
    if value is None:
        return None
    target = _text(value)
    if target not in files and not _TARGET_NAME.fullmatch(target):
        raise InputError(
            f"the bundle's target {target[:100]!r} is a file that the bundle does not contain. "
            "Verify nothing that names a file of this machine."
        )
    return target


def _files(value: Mapping[str, object]) -> dict[str, str]:
    if len(value) > MAX_FILES:
        raise ValueError(f"there are more than {MAX_FILES} files")
    files = {_text(name): _text(text) for name, text in dict(value).items()}
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise ValueError(f"a file has the name {name!r}")
    if sum(map(len, files.values())) > MAX_FILES_BYTES:
        raise ValueError("the files are too large")
    return files


def _workload(value: object) -> Workload:
    if not isinstance(value, Workload):
        raise TypeError("no workload")
    _text(value.name)
    return value


def _measured(plain: object) -> Measured:
    found = outcome_from_json(plain)
    if not isinstance(found, Measured):
        raise TypeError("no measurement")
    if found.noise < 0:
        raise ValueError("the noise is below 0")
    return found


def text_suffixes(kernel: str) -> tuple[str, ...]:
    """The suffixes of the files of a kernel folder that a bundle contains, if the file of a kernel
    has the suffix `kernel`.
    """
    return (".toml", ".py", ".h", kernel)
