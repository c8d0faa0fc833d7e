"""Templates: read from both notations, filled in to concrete text, refused in one sentence."""

from __future__ import annotations

import pytest

from tilewright.core.errors import InputError
from tilewright.core.templates import (
    CALLS,
    MACROS,
    KernelTemplate,
    TemplateNotation,
    parse_template,
)

C_TEXT = """\
// Two parameters.
TUNE(TM, 16, 32, 64)   // rows
  TUNE(TN, 8, 16);
TUNE_REQUIRE(TM * TN <= 512 && TM / 3 != 5)
void kernel(void) { int x[TM][TN]; }
"""
PYTHON_TEXT = """\
TM = tune(16, 32)
def kernel(a):
    SWITCH = tune(0, 1)  # a switch
    tune_require(TM >= 32 or SWITCH == 1)
"""


def template(text: str = C_TEXT) -> KernelTemplate:
    found = parse_template(text, CALLS if "tune(" in text else MACROS)
    assert found is not None
    return found


def test_c_names_parameters_with_macros_on_lines_of_their_own() -> None:
    found = template()
    assert [(p.name, p.values) for p in found.parameters] == [
        ("TM", (16, 32, 64)),
        ("TN", (8, 16)),
    ]
    # TM = 16 is out: 16 / 3 is 5, rounded down as in C.
    assert found.points() == ((32, 8), (32, 16), (64, 8))
    assert found.first == {"TM": 32, "TN": 8}


def test_an_instance_is_concrete_text_with_the_same_lines() -> None:
    text = template().instance({"TM": 64, "TN": 8})
    assert "TUNE" not in text.replace("requires", "")
    lines = text.split("\n")
    assert lines[1:4] == [
        "#define TM 64",
        "  #define TN 8",
        "// requires TM * TN <= 512 && TM / 3 != 5",
    ]
    assert lines[4:] == C_TEXT.split("\n")[4:]
    assert parse_template(text, MACROS) is None


def test_a_pragma_has_the_values_themselves() -> None:
    """C compilers expand no macros there: `#pragma GCC unroll U` would not compile."""
    text = "TUNE(U, 2, 4)\n#define V U\n# pragma GCC unroll U\nfor (;;) UU = U;\n"
    lines = template(text).instance({"U": 4}).split("\n")
    assert lines[1:4] == ["#define V U", "# pragma GCC unroll 4", "for (;;) UU = U;"]


def test_python_assigns_what_a_call_would_give() -> None:
    found = template(PYTHON_TEXT)
    assert found.points() == ((16, 1), (32, 0), (32, 1))
    text = found.instance({"TM": 32, "SWITCH": 0})
    assert text.split("\n")[0] == "TM = 32"
    assert text.split("\n")[2] == "    SWITCH = 0"
    compile(text + "    return a\n", "kernel.py", "exec")


@pytest.mark.parametrize(
    ("text", "notation", "unused"),
    [
        ("TUNE(A, 1, 2)\nTUNE(B, 1)\nint x = A;", MACROS, ("B",)),
        ("TUNE(A, 1)\nTUNE_REQUIRE(A > 0)\nint AA = 1;  // A\n/* A\n A */", MACROS, ("A",)),
        ("TUNE(A, 1)\nTUNE(B, 1)\n#if A\n#pragma GCC unroll B\n#endif", MACROS, ()),
        ("TUNE(A, 1)\n" + "/* " * 200_000 + "A", MACROS, ("A",)),
        ("A = tune(1, 2)\nB = tune(3)\nx = A  # B\n", CALLS, ("B",)),
    ],
)
def test_parameters_that_the_kernel_does_not_use_are_known(
    text: str, notation: TemplateNotation, unused: tuple[str, ...]
) -> None:
    found = parse_template(text, notation)
    assert found is not None
    assert found.unused == unused


def test_a_kernel_without_parameters_is_no_template() -> None:
    assert parse_template("void kernel(void) {}", MACROS) is None
    assert parse_template("#define TUNE(a, b)\n// TUNE(X) is not used\n", MACROS) is None
    assert parse_template(C_TEXT, None) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TUNE(TM)", "gives parameter TM no values. List its values, as in TUNE(TM, 16, 32, 64)."),
        ("TUNE(TM, 16, large)", "expected whole numbers"),
        ("TUNE(TM, 16)\nTUNE(TM, 32)", "declares the parameter TM a second time"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE(TM < TK)", "names TK, which is not a parameter"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE(TM ** 9 > 1)", "cannot be read"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE(print(TM))", "cannot be read"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE(" + "(" * 400 + ")" * 400 + ")", "cannot be read"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE(TM > 16)", "no combination"),
        ("int x = TUNE(TM, 16);", "contains other code than the declaration"),
        ("TUNE(TM, 16, 32, 0x10)", "gives parameter TM the value 16 more than once"),
        ("TUNE(TM, 16)\nTUNE_REQUIRE((TM % 8 == 0", "line 2 of the template, 'TUNE_REQUIRE((TM % "),
        ("TUNE(TM, 16)\nTUNE_REQUIRE((TM % 8 == 0", "Add the missing ) on the same line"),
        ("TUNE(A, 0, 2)\nTUNE_REQUIRE(4 / A == 2)", "divides by zero for A = 0. Remove this value"),
        ("TUNE(A, 2)\nTUNE_REQUIRE(4 % 0 == A)", "divides by zero for A = 2"),
        ("TUNE_REQUIRE(1 < 2)\nTUNE_REQUIRE(2 < 1)", "no combination"),
        (
            "\n".join(f"TUNE(P{n}, {', '.join(map(str, range(10)))})" for n in range(9)),
            "1,000,000,000 combinations",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_template(text, MACROS)
    message = str(refused.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 1000


def test_an_instance_needs_a_value_that_is_there_for_every_parameter() -> None:
    with pytest.raises(InputError, match=r"parameter TN is None. Give one of 8, 16"):
        template().instance({"TM": 16})


def test_a_division_by_zero_is_refused_unless_an_earlier_test_excludes_it() -> None:
    for test in ("A != 0 && 4 / A == 2", "A != 0)\nTUNE_REQUIRE(4 / A == 2"):
        assert template(f"TUNE(A, 0, 2)\nTUNE_REQUIRE({test})").points() == ((2,),)
