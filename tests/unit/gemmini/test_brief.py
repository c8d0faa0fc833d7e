"""The target's texts, header, command effects and configuration agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.targets.gemmini import brief as brief_module
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.brief import CONSTANTS, LIMITS, load_commands, load_menu

FOLDER = Path(brief_module.__file__).parent
HEADER = (FOLDER / "runtime" / "gemmini.h").read_text()
BRIEF = create_target().brief()
COMMANDS = {c.name: c for c in BRIEF.commands if c.unit not in ("space", "flag")}


def macro_parameters(name: str) -> list[str]:
    match = re.search(rf"^#define {name}\(([^)]*)\)", HEADER, re.MULTILINE)
    assert match, f"gemmini.h has no macro {name}"
    return [p.strip() for p in match.group(1).split(",") if p.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_macro_with_as_many_operands(name: str) -> None:
    parameters = macro_parameters(name)
    if parameters == ["..."]:
        parameters = macro_parameters("GEMMINI_STORE_3_")
    assert len(parameters) == len(COMMANDS[name].operands)


@pytest.mark.parametrize("name", [*COMMANDS, *CONSTANTS])
def test_the_isa_text_explains_every_name(name: str) -> None:
    if name != "OUTPUT_STATIONARY":  # the dataflow that this configuration does not use
        assert re.search(rf"`[^`]*\b{name}\b", BRIEF.isa), name


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_those_of_the_header(name: str) -> None:
    match = re.search(rf"^#define {name}(?:\(row\))? (.*?)(?: /\*.*)?$", HEADER, re.MULTILINE)
    assert match
    text = match.group(1).strip()
    base = re.match(r"\((0x[0-9a-f]+)u \|", text)
    if "row" in text:
        assert CONSTANTS[name] == (int(base.group(1), 16) if base else 0)
    else:
        assert int(text.rstrip("u"), 0) == CONSTANTS[name]


def test_limits_are_those_of_the_simulated_machine() -> None:
    machine = tomllib.loads((FOLDER / "target.toml").read_text())["simulator"]
    dim = machine["array"]["dim"]
    assert {
        "tile_rows": dim,
        "tile_columns": dim,
        "move_rows": dim,
        "move_columns": dim * machine["commands"]["max_blocks"],
        "scratchpad_banks": machine["scratchpad"]["banks"],
        "scratchpad_bank_rows": machine["scratchpad"]["bank_rows"],
        "accumulator_banks": machine["accumulator"]["banks"],
        "accumulator_bank_rows": machine["accumulator"]["bank_rows"],
    } == LIMITS
    assert CONSTANTS["DIM"] == dim
    assert CONSTANTS["SPAD_BANK_ROWS"] == LIMITS["scratchpad_bank_rows"]
    assert CONSTANTS["ACC_BANK_ROWS"] == LIMITS["accumulator_bank_rows"]


def test_the_menu_has_distinct_options_in_sentences() -> None:
    assert len({option.id for option in BRIEF.menu}) == len(BRIEF.menu) >= 10
    for option in BRIEF.menu:
        assert re.fullmatch(r"[a-z0-9-]+", option.id)
        assert option.text.endswith(".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[option]\n", "cannot be read as TOML"),
        ('[[option]]\nid = "a"\n', "does not fit MenuOption"),
        ('[[option]]\nid = "a"\ntext = "b."\ncolour = "red"\n', "colour"),
    ],
)
def test_a_malformed_menu_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "menu.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_menu(path)


def test_a_missing_or_malformed_command_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "commands.toml"
    with pytest.raises(ConfigurationError, match=r"commands\.toml cannot be read"):
        load_commands(path)
    path.write_text('[[command]]\nname = "x"\n')
    with pytest.raises(ConfigurationError, match="does not fit CommandEffect"):
        load_commands(path)
