"""Reads what proposers may know about a target from its folder's text and TOML files.

The files are templates, in which `{{ ... }}` is replaced by numbers and names of the target.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.core.records import CommandEffect, Example, FolderTemplate, MenuOption

Words = Mapping[str, object]
"""The values that the files may contain."""


def render(path: Path, words: Words) -> str:
    """The text of a file with words in place of `{{ ... }}`."""
    # Not at the top, because processes that only measure kernels do not need it.
    from jinja2 import Environment, StrictUndefined, TemplateError

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        return environment.from_string(path.read_text(encoding="utf-8")).render(words)
    except (OSError, UnicodeDecodeError, TemplateError) as error:
        raise ConfigurationError(f"{path} cannot be read as a template: {error}.") from error


def load_menu(path: Path, words: Words) -> tuple[MenuOption, ...]:
    """The `[[option]]` tables of a menu: id, text, and optionally the other fields of options."""
    tables = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
        for table in _tables(path, "option", words)
    ]
    return tuple(_record(path, "option", table, MenuOption) for table in tables)


def load_commands(path: Path, words: Words) -> tuple[CommandEffect, ...]:
    """The `[[command]]` tables: name, operands, unit and optionally attributes."""
    return tuple(
        _record(
            path, "command", {**table, "operands": tuple(table.get("operands", ()))}, CommandEffect
        )
        for table in _tables(path, "command", words)
    )


def load_template(path: Path, words: Words) -> FolderTemplate:
    """A target's template.toml. Its `skeleton` is not rendered, because it is itself a template."""
    document = _document(path, words)
    document["tolerance"] = tuple(document.get("tolerance", ()))
    template: FolderTemplate = _record(path, "template", document, FolderTemplate)
    return template


def load_examples(folder: Path, words: Words) -> tuple[Example, ...]:
    """The worked examples of a folder. Each consists of a line `name:`, a line `options:`, a line
    `---`, and the text.
    """
    examples = []
    for path in sorted(folder.glob("*.md")):
        head, rule, text = render(path, words).partition("\n---\n")
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        if not rule or set(fields) != {"name", "options"}:
            raise ConfigurationError(
                f"{path} has no usable header: begin it with the lines name:, options: and ---."
            )
        options = tuple(option.strip() for option in fields["options"].split(","))
        examples.append(Example(fields["name"], options, text.strip()))
    return tuple(examples)


def _tables(path: Path, key: str, words: Words) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = _document(path, words).get(key, [])
    return tables


def _document(path: Path, words: Words) -> dict[str, Any]:
    try:
        return tomllib.loads(render(path, words))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} cannot be read as TOML: {error}.") from error


def _record(path: Path, key: str, table: dict[str, Any], cls: Any) -> Any:
    try:
        return cls(**table)
    except TypeError as error:
        raise ConfigurationError(
            f"{path} has a [[{key}]] table {table} that does not fit {cls.__name__}: {error}."
        ) from error
