"""C in, IR out, C again: what is modelled, what stays text, and that nothing changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_model import trace
from logged_commands import HEAD, issued

from tilewright.core.errors import InputError
from tilewright.parts.languages import C
from tilewright.proposers.rewriter.canonical import canonical_text
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Command, Loop, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine


def lifted(machine: Machine, body: str) -> list[object]:
    return list(walk(lift(HEAD + body + "\n}\n", machine).body))


def opaque_reasons(machine: Machine, body: str) -> list[str]:
    return [s.reason for s in lifted(machine, body) if isinstance(s, Opaque)]


# --- what is modelled -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 64; i += 16) mvin(&A[i][0], SPAD(i), 16, 16);",
        "for (unsigned i = 0; i <= 48; i = i + 16) { mvin(A[i], SPAD(i), 16, 16); }",
        "int i; for (i = 0; i < 64; i++) { mvin(A[i] + 16, SPAD(i), 16, 1); }",
        "for (int i = 0; i < 4; ++i) { uint32_t t = SPAD(i << 4); mvin(&A[i][0], t + 1, 16, 1); }",
        "for (int i = 0; i < 4; i++) { int s = (i & 1) * DIM; mvin(&A[i][0], SPAD(s), 16, 1); }",
        "if (1 < 2 && 3) { preload(SPAD(0), (uint32_t)ACC(0) | ACCUMULATE, 16, 16, 16, 16); }",
        "for (int k = 0; k < 4; k++)"
        " preload(NONE, ACC(0) | (k == 0 ? 0 : ACCUMULATE), 16, 16, 16, 16);",
        "const int8_t *p = &A[0][0]; for (int i = 0; i < 4; i++, p += 64) mvin(p, SPAD(0), 16, 1);",
        "int i = 4; while (i > 0) { i--; mvin(&A[i][0], SPAD(i), 16, 1); }",
        "for (int i = 64; i > 0; i -= 16) mvin(&A[i - 16][0], SPAD(i), 16, 16);",
        "int s = 0; for (int i = 0; i < 9; i++) { s = (s + 1) % 3; mvin(A[i], SPAD(s), 16, 1); }",
        "int s = 0; for (int i = 0; i < 9; i++) {"
        " mvin(A[i], SPAD(s), 16, 1); s = s == 2 ? 0 : s + 1; }",
        "uint32_t a = SPAD(0), b = SPAD(64), t; for (int i = 0; i < 8; i++) {"
        " mvin(A[i], a, 16, 1); t = a; a = b; b = t; }",
        "const uint32_t at[] = {SPAD(0), SPAD(32), SPAD(64)};"
        " for (int i = 0; i < 9; i++) mvin(A[i], at[i % 3], 16, 1);",
        "_Bool first = 1; for (int i = 0; i < 4; i++) {"
        " preload(NONE, ACC(0) | (first ? 0 : ACCUMULATE), 16, 16, 16, 16); first = 0; }",
    ],
)
def test_modelled(machine: Machine, body: str) -> None:
    assert opaque_reasons(machine, body) == []
    assert any(isinstance(s, Command) for s in lifted(machine, body))


TILE = "typedef struct { int row, rows; } tile;\n"
STRUCTURES = [
    "tile t = {3, 4}; mvin(A[t.row], SPAD(t.row), 16, t.rows);",
    "tile t; t.row = 3; t.rows = t.row + 1; t.row += 2; mvin(A[t.row], SPAD(0), 16, t.rows);",
    "for (int i = 0; i < 50; i += 16) { tile t = {.rows = i < 34 ? 16 : 50 - i, .row = i};"
    " mvin(A[t.row], SPAD(i), 16, t.rows); }",
    "const tile t = (tile){2}; mvin(A[t.row], SPAD(t.rows), 16, 1);",
]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@pytest.mark.parametrize("body", STRUCTURES)
def test_structures_are_folded(machine: Machine, tmp_path: Path, body: str) -> None:
    source = TILE + HEAD + body + "\n}\n"
    kernel = lift(source, machine)
    assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
    assert issued(emit(kernel), tmp_path) == issued(source, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "tile t = {3, 4}; tile *p = &t + helper(); p->row = 1; mvin(A[t.row], SPAD(0), 16, 1);",
        "tile t = {3, 4}; helper(&t); mvin(A[t.row], SPAD(0), 16, 1);",
        "tile t; mvin(A[t.row], SPAD(0), 16, 1);",
        "tile t = {0};"
        " for (int i = 0; i < 33; i++) { mvin(A[t.row], SPAD(0), 16, 1); t.row += 2; }",
    ],
)
def test_structures_that_change_unseen_stay_text(machine: Machine, body: str) -> None:
    stmts = list(walk(lift(TILE + HEAD + body + "\n}\n", machine).body))
    assert any(isinstance(s, Opaque) and "mvin" in s.text for s in stmts)


WHILE_SOMETHING_IS_LEFT = [
    "int left = 50; const int8_t *p = A[0]; while (left > 0) { int n = left < 16 ? left : 16;"
    " mvin(p, SPAD(0), n, 1); p += n; left -= n; } mvin(p, SPAD(left), 1, 1);",
    "int i = 0; while (i < 40) { int n = 40 - i > 16 ? 16 : 40 - i; mvin(A[i], SPAD(i), 16, n);"
    " i += n; } mvin(A[i], SPAD(0), 16, 1);",
    "int left = 48, at = 0; while (left) { int n = left < 16 ? left : 16;"
    " mvin(A[at], SPAD(at), 16, n); at = at + n; left = left - n; }",
    "int n = 5; while (n--) mvin(A[n], SPAD(n), 16, 1);",
    "int n = 5; while (--n) mvin(A[n], SPAD(n), 16, 1);",
    "int n = 0; while (n++ < 5) mvin(A[n], SPAD(n), 16, 1);",
    "int n = 5; do { mvin(A[n], SPAD(n), 16, 1); } while (--n > 0);",
    "int n = 5; do { mvin(A[n], SPAD(n), 16, 1); } while (n-- > 0);",
    "for (int i = 6; i-- > 0;) mvin(A[i], SPAD(i), 16, 1);",
    "for (int i = 0; i < 9; i++) { if (i == 4) continue; mvin(A[i], SPAD(i), 16, 1); }",
    "for (int i = 0; i < 9; i++) { if (i < 2 || i >= 6) { continue; } mvin(A[i], SPAD(i), 16, 1);"
    " for (int j = 0; j < 3; j++) { if (j == i - 3) continue; mvout(C[j], ACC(i), 16, 1); } }",
    "int left = 9; while (left > 0) { int n = left < 4 ? left : 5; mvin(A[left], 0, 1, 1);"
    " left -= n; }",
    "int left = -3; while (left != 0) { int n = left < 4 ? left : 4; mvin(A[left + 9], 0, 1, 1);"
    " left -= n; }",
]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@pytest.mark.parametrize("body", WHILE_SOMETHING_IS_LEFT)
def test_loops_that_take_what_is_left_or_skip(machine: Machine, tmp_path: Path, body: str) -> None:
    assert opaque_reasons(machine, body) == []
    source = HEAD + body + "\n}\n"
    printed = issued(emit(lift(source, machine)), tmp_path)
    assert printed == issued(source, tmp_path)
    assert printed


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 9; i++) { if (A[i][0]) continue; mvin(A[i], SPAD(i), 16, 1); }",
        "for (int i = 0; i < 9; i++) { { if (i > 3) continue; } mvin(A[i], SPAD(i), 16, 1); }",
        "int left = 90; while (left > 0) { int n = left < 4 ? left : 5; mvin(A[left], 0, 1, 1);"
        " left -= n; }",
    ],
)
def test_loops_that_only_look_alike_stay_text(machine: Machine, body: str) -> None:
    assert opaque_reasons(machine, body)


# --- what stays text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int i = 0; again: mvin(&A[0][0], SPAD(0), 16, 16); if (i++ < 3) goto again;", "goto"),
        ("helper(A);", "helper"),
        ("kernel(A, B, C);", "kernel"),
        ("const int8_t *p = A[A[0][0]]; mvin(p, SPAD(0), 16, 16);", "memory"),
        ("const int32_t *p = (const int32_t *)A; mvin(p + 1, SPAD(0), 16, 16);", "pointer"),
        ("int i = 0; while (A[i][0] < 4) i++;", "memory"),
        ("int i = 1; while (i < 1 << 20) { mvin(A[i], SPAD(0), 16, 16); i *= 2; }", "constant"),
        ("int i = 5; while (i != 4) { mvin(A[i], SPAD(0), 16, 16); i += 2; }", "count"),
        ("int i = A[0][0]; do { mvin(A[i], SPAD(0), 16, 16); i++; } while (i < 4);", "memory"),
        ("switch (A[0][0]) { case 3: mvin(A[0], SPAD(0), 16, 16); }", "memory"),
        ("switch (3) { case 3: fence(); default: fence(); }", "falls through"),
        (
            "for (int i = 0; i < 64; i += 16) { mvin(A[i], SPAD(i), 16, 16); if (i == 32) break; }",
            "end early",
        ),
        (
            "for (int i = 64; i < 99; i -= 16) mvin(&A[i][0], SPAD(i), 16, 16);",
            "away from its limit",
        ),
        ("for (int i = 0; i < 64; i += 1) { mvin(&A[i][0], SPAD(i * i), 16, 1); }", "affine"),
        ("if (A[0][0]) mvin(&A[0][0], SPAD(0), 16, 16);", "memory"),
        ("mvin((int32_t *)A + 3, SPAD(0), 16, 16);", "pointer"),
        ("mvin(&A[0][0], SPAD(0));", "operands"),
        ("int n = 3; int v[n]; v[0] = 1;", "variable length"),
    ],
)
def test_odd_code_stays_text_with_a_reason(machine: Machine, body: str, reason: str) -> None:
    assert any(reason in r for r in opaque_reasons(machine, body))
    source = HEAD + body + "\n}\n"
    again = emit(lift(source, machine))
    assert body.split()[0] in again
    assert canonical_text(again, machine, C.normal_form) == canonical_text(
        source, machine, C.normal_form
    )


def test_a_function_that_calls_itself_is_not_inlined(machine: Machine) -> None:
    source = "static void f(int n) { if (n) f(n - 1); }\n" + HEAD + "f(3);\nfence();\n}\n"
    reasons = [s.reason for s in walk(lift(source, machine).body) if isinstance(s, Opaque)]
    assert len(reasons) == 1
    assert "calls itself" in reasons[0]


def test_jumps_leave_the_code_around_them_modelled(machine: Machine) -> None:
    body = (
        "for (int i = 0; i < 4; i++) mvin(&A[i][0], SPAD(i), 16, 1);\n"
        "int n = 0;\nagain: fence();\nif (n++ < 3) goto again;\n"
        "for (int i = 0; i < 4; i++) mvin(&A[i][0], SPAD(i), 16, 1);"
    )
    stmts = lifted(machine, body)
    assert sum(isinstance(s, Loop) for s in stmts) == 2
    assert [s.line for s in stmts if isinstance(s, Opaque) and "goto" in s.reason] == [4]
    again = emit(lift(HEAD + body + "}", machine))
    assert again.index("int n = 0;") < again.index("again: fence();") < again.index("goto again;")


def test_text_says_where_it_stood(machine: Machine) -> None:
    stmts = lifted(machine, "fence();\n#define N 3\n\nhelper(N);")
    assert [s.line for s in stmts if isinstance(s, Opaque)] == [5]


def test_locals_that_text_uses_stay_declared(machine: Machine) -> None:
    body = "const int n = 4; for (int i = 0; i < n; i++) helper(n, i);"
    again = emit(lift(HEAD + body + "}", machine))
    assert "const int n = 4;" in again


def test_code_beside_odd_code_is_still_modelled(machine: Machine) -> None:
    stmts = lifted(machine, "helper(); for (int i = 0; i < 4; i++) mvin(&A[i][0], SPAD(i), 16, 1);")
    assert any(isinstance(s, Loop) for s in stmts)


# --- errors -----------------------------------------------------------------------------------


def test_a_syntax_error_names_its_line(machine: Machine) -> None:
    with pytest.raises(InputError, match="line 3"):
        lift(HEAD + "fence();\nmvin(&A[0][0], SPAD(0, 16;\n}\n", machine)


def test_a_file_without_kernel_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="'kernel'"):
        lift("void other(void) {}", machine)


# --- lift, print, lift ------------------------------------------------------------------------

_NAMES = ("i", "j", "k", "n")


@st.composite
def statements(draw: st.DrawFn, depth: int = 0, scope: tuple[str, ...] = ()) -> str:
    """C statements of the kernel language, over loops, guards and constant locals."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["command", "loop", "guard", "local"]))
        if kind == "loop" and depth < 3:
            name = _NAMES[depth]
            low, step = draw(st.integers(0, 3)), draw(st.sampled_from([1, 2, 16]))
            high = low + step * draw(st.integers(1, 3)) - draw(st.integers(0, 1)) * (step > 1)
            inside = draw(statements(depth + 1, (*scope, name)))
            lines.append(
                f"for (int {name} = {low}; {name} < {high}; {name} += {step}) {{\n{inside}}}\n"
            )
        elif kind == "guard" and scope:
            test = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
            value = draw(expressions(scope))
            inside = draw(statements(depth + 1, scope)) if depth < 3 else "fence();\n"
            lines.append(f"if ({value} {test} {draw(st.integers(0, 40))}) {{\n{inside}}}\n")
        elif kind == "local" and scope:
            limit = draw(st.integers(1, 40))
            value = draw(expressions(scope))
            lines.append(
                f"{{ const int m = {value} < {limit} ? {value} : {limit};\n"
                f"mvin(&A[0][m], SPAD(m), 16, m + 1); }}\n"
            )
        else:
            value = draw(expressions(scope))
            lines.append(
                f"mvout(&C[{value}][0], ACC({draw(expressions(scope))}) | "
                f"({value} > 3 ? FULL : 0), 16, 16); // note\n"
            )
    return "".join(lines)


@st.composite
def expressions(draw: st.DrawFn, scope: tuple[str, ...]) -> str:
    if not scope:
        return str(draw(st.integers(0, 50)))
    name = draw(st.sampled_from(scope))
    form = draw(
        st.sampled_from(
            [
                "{0}",
                "{1} * {0} + {2}",
                "({0} + {2}) / {1}",
                "({0} / {1} + {2}) % 3",
                "{0} % {1}",
                "({0} << 2) + {2}",
                "({0} & 3) * {1}",
            ]
        )
    )
    return form.format(name, draw(st.integers(1, 20)), draw(st.integers(0, 20)))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(statements())
def test_lift_then_print_keeps_every_command(machine: Machine, body: str) -> None:
    kernel = lift(HEAD + body + "}\n", machine)
    assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
    again = lift(emit(kernel), machine)
    assert list(trace(again.body)) == list(trace(kernel.body))
    assert emit(again) == emit(kernel)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=statements())
def test_the_printed_kernel_issues_what_the_source_issues(
    machine: Machine, tmp_path: Path, body: str
) -> None:
    source = HEAD + body + "}\n"
    assert issued(emit(lift(source, machine)), tmp_path) == issued(source, tmp_path)
