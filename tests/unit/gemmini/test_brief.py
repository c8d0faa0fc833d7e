"""The target's texts, header, command effects and configuration agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.parts.brief_files import load_commands, load_menu
from tilewright.targets.gemmini import brief as brief_module
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.brief import load_brief, words

FOLDER = Path(brief_module.__file__).parent
HEADER = (FOLDER / "runtime" / "gemmini.h").read_text()
INSTANCES = {t.name: t.instance for t in (create_target(), create_fp32_target())}
INT8 = INSTANCES["gemmini"]
CONSTANTS = INT8.constants
BRIEF = load_brief(INT8)
COMMANDS = {c.name: c for c in BRIEF.commands if c.unit not in ("space", "flag", "macro")}


def macro_parameters(name: str) -> list[str]:
    match = re.search(rf"^#define {name}\(([^)]*)\)", HEADER, re.MULTILINE)
    assert match, f"gemmini.h has no macro {name}"
    return [p.strip() for p in match.group(1).split(",") if p.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_macro_with_as_many_operands(name: str) -> None:
    parameters = macro_parameters(name)
    if parameters == ["..."]:
        full = {"config_ex": "GEMMINI_EXECUTE_6_", "config_st": "GEMMINI_STORE_3_"}
        parameters = macro_parameters(full[name])
    assert len(parameters) == len(COMMANDS[name].operands)


@pytest.mark.parametrize("name", [*COMMANDS, *CONSTANTS])
def test_the_isa_text_explains_every_name(name: str) -> None:
    assert re.search(rf"`[^`]*\b{name}\b", BRIEF.isa), name


@pytest.mark.parametrize("target", INSTANCES)
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_those_of_the_header(name: str, target: str) -> None:
    instance = INSTANCES[target]
    pattern = rf"^#define {name}(?:\(row\))? (.*?)(?: /\*.*)?$"
    match = re.search(pattern, HEADER + instance.header, re.MULTILINE)
    assert match
    text = match.group(1).strip()
    base = re.match(r"\((0x[0-9a-f]+)u \|", text)
    if "row" in text:
        assert instance.constants[name] == (int(base.group(1), 16) if base else 0)
    else:
        assert int(text.rstrip("u"), 0) == instance.constants[name]


def test_the_header_has_the_types_of_the_configuration() -> None:
    assert "typedef int8_t elem_t;\ntypedef int32_t acc_t;" in INT8.header
    assert "typedef float elem_t;\ntypedef float acc_t;" in INSTANCES["gemmini-fp32-4x4"].header


@pytest.mark.parametrize("target", INSTANCES)
def test_limits_are_those_of_the_simulated_machine(target: str) -> None:
    config, limits = INSTANCES[target].config, INSTANCES[target].limits
    assert limits["tile_rows"] == limits["move_rows"] == config["array_dim"]
    assert limits["move_columns"] == config["array_dim"] * config.max_blocks
    assert limits["scratchpad_bank_rows"] == config["scratchpad_bank_rows"]


@pytest.mark.parametrize("target", INSTANCES)
def test_every_text_follows_the_instance(target: str) -> None:
    """Numbers of the geometry appear, those of the other configuration do not."""
    instance = INSTANCES[target]
    brief = load_brief(instance)
    attributes = {c.name: c.attributes for c in brief.commands}
    assert attributes["mvin"]["max_columns"] == str(instance.move_columns)
    assert attributes["preload"]["max_rows"] == str(instance.dim)
    assert attributes["SPAD"]["row_columns"] == str(instance.dim)
    assert f"rows <= {instance.dim}, cols <= {instance.move_columns}" in brief.isa
    assert f"moves at most {instance.move_columns} columns" in brief.rules
    for text in (brief.isa, brief.rules, *(option.text for option in brief.menu)):
        assert "{{" not in text
        assert "{%" not in text
    if not instance.is_integer:
        assert "int8" not in brief.isa + brief.rules
        assert "saturated" not in brief.isa + brief.rules


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
        load_menu(path, words(INT8))


def test_a_missing_or_malformed_command_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "commands.toml"
    with pytest.raises(ConfigurationError, match=r"commands\.toml cannot be read"):
        load_commands(path, words(INT8))
    path.write_text('[[command]]\nname = "x"\n')
    with pytest.raises(ConfigurationError, match="does not fit CommandEffect"):
        load_commands(path, words(INT8))


@pytest.mark.parametrize(
    ("family", "steps"), [("clang", "3.2 for 4 x 4"), ("gcc", "3.8 for 4 x 4")]
)
def test_costs_of_the_core_are_those_of_the_compiler(
    family: str, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brief_module, "compiler_family", lambda: family)
    costs = load_brief(INSTANCES["gemmini-fp32-4x4"]).costs
    assert f"compiled by {family} with" in costs
    assert steps in costs
    assert "4 x 4" not in load_brief(INT8).costs  # there the core does not bind


def test_every_compiler_has_the_same_numbers() -> None:
    tables = tomllib.loads((FOLDER / "costs.toml").read_text())
    assert set(tables) == {"clang", "gcc"}
    for table in tables.values():
        assert table["version"]
        assert table["gemmini"].keys() == table["gemmini-fp32-4x4"].keys()
        assert table["gemmini"].keys() == tables["clang"]["gemmini"].keys()


@pytest.mark.parametrize("name", re.findall(r"^#define (gemmini_\w+)\(", HEADER, re.MULTILINE))
def test_the_isa_text_defines_the_names_of_the_public_programs(name: str) -> None:
    """By name, or by the rule for commands that take the same arguments or only addresses."""
    by_rule = re.fullmatch(r"gemmini_(?:extended_)?(\w+)", name)
    assert by_rule
    is_move_or_product = by_rule[1] in COMMANDS and not by_rule[1].startswith(("config", "fence"))
    explained = name in BRIEF.isa or is_move_or_product
    assert explained


def test_the_isa_text_says_what_happens_to_operands_in_the_accumulator() -> None:
    for name in INSTANCES:
        text = " ".join(load_brief(INSTANCES[name]).isa.split())
        assert "the activation of `config_ex`" in text
        assert "and not with those of `config_st`" in text


@pytest.mark.parametrize("target", INSTANCES)
def test_texts_say_what_stores_and_the_ends_of_a_kernel_cost(target: str) -> None:
    """A model that did not know these planned for less time than any kernel takes."""
    brief = load_brief(INSTANCES[target])
    isa, costs = " ".join(brief.isa.split()), " ".join(brief.costs.split())
    assert "8 loads (those in flight included)" in isa
    assert "which the L2 cache does not hold fetches the line from DRAM" in isa
    assert "the products that write these rows have left the array" in isa
    found = re.search(r"about (\d+) cycles before it, .* and (\d+) after it", costs)
    assert found
    assert 100 < int(found[2]) < int(found[1]) < 500


def test_a_transposed_operand_costs_a_whole_pass_by_itself() -> None:
    isa = " ".join(BRIEF.isa.split())
    assert "cannot both be transposed. While one of them is, every product takes 16 cycles." in isa
