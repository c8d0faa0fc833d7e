"""Macros that are defined under conditions which only the compiler decides."""

from __future__ import annotations

import pytest

from tilewright.proposers.c.preprocess import expanded

UNKNOWN = "defined(__riscv)"


def last_line(source: str) -> str:
    return expanded(source, {"mvin"}).split("\n")[-1]


@pytest.mark.parametrize(
    "source",
    [
        f"#if {UNKNOWN}\n#define ROWS 16\n#else\n#define ROWS 8\n#endif\nint a = ROWS;",
        f"#if {UNKNOWN}\n#define ROWS 16\n#endif\n"
        "#ifndef ROWS\n#define ROWS 8\n#endif\nint a = ROWS;",
        f"#define ROWS 8\n#if {UNKNOWN}\n#undef ROWS\n#define ROWS 16\n#endif\nint a = ROWS;",
        f"#define ROWS 8\n#if {UNKNOWN}\n#undef ROWS\n#endif\nint a = ROWS;",
    ],
)
def test_a_macro_with_several_possible_values_is_not_expanded(source: str) -> None:
    assert last_line(source) == "int a = ROWS;"


def test_a_type_that_only_the_compiler_decides_keeps_its_name() -> None:
    source = f"#if {UNKNOWN}\ntypedef float real;\n#else\ntypedef int8_t real;\n#endif\nreal x;"
    assert last_line(source) == "real x;"
    assert "typedef float real;" in expanded(source, ())


def test_a_macro_that_is_defined_anew_has_one_value_again() -> None:
    unsure = f"#if {UNKNOWN}\n#define ROWS 16\n#else\n#define ROWS 8\n#endif\n"
    assert last_line(unsure + "#undef ROWS\n#define ROWS 4\nint a = ROWS;") == "int a = 4;"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("#ifndef _ONCE_H\n#define _ONCE_H\n#define ROWS 8\n#endif\nint a = ROWS;", "int a = 8;"),
        (f"#if {UNKNOWN}\n#define R 8\n#else\n#define R 8\n#endif\nint a = R;", "int a = 8;"),
        (
            f"#if {UNKNOWN}\n#define FAST inline\n#else\n#define FAST\n#endif\nFAST void f(void);",
            " void f(void);",
        ),
        ("#ifdef __GNUC__\n#define R 8\n#else\n#define R 4\n#endif\nint a = R;", "int a = 8;"),
    ],
)
def test_what_no_condition_changes_is_expanded(source: str, line: str) -> None:
    assert last_line(source) == line


def test_an_assumption_is_none_of_the_values() -> None:
    """Exo's: it tells one compiler what holds, and nothing to another."""
    source = """#if defined(__has_builtin)
#define HAS(name) __has_builtin(name)
#else
#define HAS(name) (0)
#endif
#if HAS(__builtin_assume)
#define ASSUME(x) __builtin_assume(x)
#elif HAS(__builtin_unreachable)
#define ASSUME(x) ((void)((x) ? 1 : (__builtin_unreachable(), 1)))
#else
#define ASSUME(x) ((void)(x))
#endif
ASSUME(n == 4);"""
    assert last_line(source) == "((void)(n == 4));"
    assert "#if __has_builtin(__builtin_assume)" in expanded(source, ())
    assert last_line(source.replace("((void)(x))", "(total += (x))")) == "ASSUME(n == 4);"
