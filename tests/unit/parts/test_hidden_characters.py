"""Characters that readers do not see as the compiler does."""

from __future__ import annotations

import pytest

from tilewright.core.records import Failed
from tilewright.parts.languages import C
from tilewright.parts.source_rules import check_source
from tilewright.parts.untrusted_python import UnparsableError, parsed

HIDDEN = ["\x85", "\u061c", "\u200b", "\u200f", "\u2028", "\u202e", "\u2060", "\u2066", "\ufeff"]


@pytest.mark.parametrize("character", HIDDEN, ids=ascii)
def test_a_hidden_character_is_refused_with_its_line(character: str) -> None:
    failed = check_source(f"int a;\n// {character}\n", C, (), "use C")
    assert isinstance(failed, Failed)
    assert failed.line == 2
    assert f"U+{ord(character):04X}" in failed.log
    with pytest.raises(UnparsableError, match=f"line 2: the character U.{ord(character):04X}"):
        parsed(f"a = 1\n# {character}\n", "kernel.py")


@pytest.mark.parametrize("text", ["// \u00e9 \u03b1 \u4e2d \u05d0 \u200d\n", "// plain\n"])
def test_letters_of_all_languages_are_allowed(text: str) -> None:
    assert check_source(text, C, (), "use C") is None
    parsed(text.replace("//", "#"), "kernel.py")
