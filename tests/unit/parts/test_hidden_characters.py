"""Characters that readers do not see as the compiler does."""

from __future__ import annotations

import pytest

from tilewright.core.records import Failed
from tilewright.parts.languages import C
from tilewright.parts.source_rules import check_source
from tilewright.parts.untrusted_python import UnparsableError, parsed

HIDDEN = [
    "\x85", "\u061c", "\u200b", "\u200f", "\u2028", "\u202e", "\u2060", "\u2066", "\ufeff",
    "\u3164", "\u115f", "\u1160", "\uffa0", "\u200c", "\u200d", "\xad", "\u180b", "\u180e",
    "\u180f", "\u2061", "\u2064", "\u206f", "\ufe00", "\ufe0e", "\ufe0f", "\U000e0000",
    "\U000e007f", "\U000e0100", "\u034f",
]  # fmt: skip


@pytest.mark.parametrize("character", HIDDEN, ids=ascii)
def test_a_hidden_character_is_refused_with_its_line(character: str) -> None:
    failed = check_source(f"int a;\n// {character}\n", C, (), "use C")
    assert isinstance(failed, Failed)
    assert failed.line == 2
    assert f"U+{ord(character):04X}" in failed.log
    with pytest.raises(UnparsableError, match=f"line 2: the character U.{ord(character):04X}"):
        parsed(f"a = 1\n# {character}\n", "kernel.py")


@pytest.mark.parametrize("name", ["a\ufe0f", "\u2460\ufe0f", "\U0001f600\ufe0f"], ids=ascii)
def test_a_variation_selector_in_a_name_is_refused(name: str) -> None:
    assert isinstance(check_source(f"int {name};\n", C, (), "use C"), Failed)


@pytest.mark.parametrize("text", ["// \u00e9 \u03b1 \u4e2d \u05d0 \u26a0\ufe0f\n", "// plain\n"])
def test_letters_of_all_languages_are_allowed(text: str) -> None:
    assert check_source(text, C, (), "use C") is None
    parsed(text.replace("//", "#"), "kernel.py")
