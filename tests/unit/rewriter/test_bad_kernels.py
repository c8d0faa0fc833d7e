"""Files that are no kernels, and kernels that hold what the rewriter does not follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernel_model import gemm

from tilewright.cli.main import main
from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief, Workload
from tilewright.proposers.nesting_limit import DEEPEST
from tilewright.proposers.rewriter import create_proposer
from tilewright.proposers.rewriter.ir import Command, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import left_alone
from tilewright.proposers.rewriter.reading import read

Refusal = Callable[[Path], str]
SHAPE = (32, 32, 32)
START = gemm(*SHAPE)
FENCE = "  fence();\n"


def beside(code: str, before: str = "") -> str:
    """The start with odd code before its fence, and more before its function."""
    assert START.count(FENCE) == 1
    return START.replace("void kernel", f"{before}void kernel").replace(FENCE, f"{code}\n{FENCE}")


DOUBLED = "#define A0 x x x x x x x x\n" + "".join(
    f"#define A{n + 1} {' '.join([f'A{n}'] * 8)}\n" for n in range(9)
)
REFUSED = {
    "syntax error": (beside("  fence(;"), "the kernel does not parse as C"),
    "open brace": (START.rstrip().rstrip("}"), "the kernel does not parse as C"),
    "nothing": ("", "no function 'kernel'"),
    "only a comment": ("/* later */\n", "no function 'kernel'"),
    "only a prototype": ("void kernel(void);\n", "no function 'kernel'"),
    "hidden by the preprocessor": (f"#if 0\n{START}\n#endif\n", "no function 'kernel'"),
    "two kernels": (START + START, "'kernel' more than once"),
    "nested blocks": (beside("{" * 400 + "}" * 400), f"more than {DEEPEST} levels deep"),
    "nested brackets": (beside(f"int z = {'(' * 400}1{')' * 400};"), "levels deep"),
    "macros without end": (DOUBLED + beside("A9;"), "macros of the file expand to more than"),
}
BESIDE = {
    "recursion": (beside("f(3);", "static void f(int n) { f(n - 1); }\n"), "calls itself"),
    "mutual recursion": (
        beside("f(3);", "void g(int n);\nvoid f(int n) { g(n); }\nvoid g(int n) { f(n); }\n"),
        "calls itself",
    ),
    "variable length": (beside("int n = 4; char v[n]; v[0] = 1;"), "variable length"),
    "goto": (beside("int n = 0;\nagain: fence(); if (n++ < 3) goto again;"), "goto"),
    "assembly": (beside('__asm__ volatile("nop");'), "asm"),
    "function pointer": (beside("void (*f)(void) = 0; f();"), "neither an integer"),
    "shift too far": (beside("int q = 1 << 100000000; mvin(&A[0][0], SPAD(q), 4, 4);"), "<<"),
    "division by zero": (beside("int q = 1 / 0; mvin(&A[0][0], SPAD(q), 4, 4);"), "/"),
    "macro that names itself": (beside("F(2);", "#define F(x) F(x)\n"), "F is called"),
}


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Refusal:
    """What the command says to a file, having checked that it is one sentence."""

    def call(file: Path) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["rewrite", str(file), "--workload", "gemmini:gemm-32x32x32", "--list"])
        captured = capsys.readouterr()
        assert (ended.value.code, captured.out) == (2, "")
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return call


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_kernel_is_refused_in_a_sentence(
    name: str, machine: Machine, target: TargetBrief
) -> None:
    source, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as refused:
        read(source, machine)
    assert str(refused.value).endswith(".")
    # A search goes on with its other proposers, and tells what this one said.
    proposer = create_proposer()
    (part,) = proposer.left_alone(target, source, Workload("w", "gemmini", (), 1))
    assert part.text == "the whole kernel"
    assert message in part.reason
    assert proposer.normalize(source, target) is not None


@pytest.mark.parametrize("name", ["syntax error", "only a comment", "nested blocks"])
def test_the_command_ends_with_that_sentence(name: str, refusal: Refusal, tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text(REFUSED[name][0])
    assert REFUSED[name][1] in refusal(file)


@pytest.mark.parametrize("content", [bytes(range(256)), "/* \u00e9 */".encode("latin-1"), None])
def test_a_file_that_is_no_text_is_refused(
    content: bytes | None, refusal: Refusal, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.c"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert "cannot be read" in refusal(file)


@pytest.mark.parametrize("name", BESIDE)
def test_the_rest_of_a_kernel_with_odd_code_is_worked_on(name: str, machine: Machine) -> None:
    source, reason = BESIDE[name]
    reasons = [part.reason for part in left_alone(source, machine)]
    assert any(reason in r for r in reasons), reasons
    modelled = sum(isinstance(s, Command) for s in walk(lift(source, machine).body))
    assert modelled == sum(isinstance(s, Command) for s in walk(lift(START, machine).body))


@pytest.mark.parametrize("body", ["", "for (int i = 0; i < 8; i++) C[i][0] = 0;"])
def test_a_kernel_without_commands_is_told(body: str, machine: Machine) -> None:
    (part,) = left_alone(f"\nvoid kernel(char C[8][8]) {{\n{body}\n}}\n", machine)
    assert (part.line, part.text) == (2, "the whole kernel")
    assert "no command" in part.reason
