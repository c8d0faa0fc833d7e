"""What a kernel's text may not contain, however it is disguised."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.records import Artifact, Candidate, Failed
from tilewright.parts.source_rules import MAX_SOURCE_BYTES
from tilewright.targets.gemmini import create_target, evaluator
from tilewright.targets.gemmini.evaluator import GemminiBuilder
from tilewright.targets.gemmini.source_rules import LOOP_HEADERS, check_source
from tilewright.targets.gemmini.toolchain import Toolchain

REFUSED = {
    '#include "/etc/passwd"': 1,
    "#include <fcntl.h>": 1,
    "\n # /* so */ include /* what */ <fcntl.h>": 2,
    "\n\n%:include <fcntl.h>": 3,
    '#inc\\\nlude "../../secret"': 1,
    '\n/* a\n comment */ #include "x.h"': 3,
    "/* a */ /* b */\n#define H <fcntl.h>\n#include H": 3,
    '#include_next "gemmini.h"': 1,
    '#include "gemmini_loops.h"': 1,  # the baselines' alone
    '#import "gemmini.h"': 1,
    '#embed "/etc/passwd"': 1,
    'int x;\nvoid kernel(void) { asm("nop"); }': 2,
    'void kernel(void) { __asm__ volatile (".incbin \\"/etc/passwd\\""); }': 1,
    'register int x __asm("a0");': 1,
    '#define PASTE(a, b) a##b\nPASTE(as, m)("nop");': 1,
    '_Pragma("GCC dependency \\"/etc/passwd\\"")': 1,
    '_Pragma("GCC dependency host")': 1,
    '#pragma GCC dependency "/etc/passwd"': 1,
    '#if __has_include("/etc/passwd")': 1,
    "#if defined(__has_include)\n#endif": 1,
    'int b __attribute__((__section__("a")));': 1,
    '#line 7 "/etc/passwd"': 1,
    "#if 0\n' /*\n#endif\nasm(1);\n// */": 2,
    'const char *s = R"(" /* )"; asm(1); // */': 1,
    'const char *s = u8R"x(" /* )x";': 1,
    "int \\u0061sm;": 1,
    "int n;\nint known = __builtin_constant_p(n);": 2,
    "int n = __builtin_dynamic_object_size(a, 0);": 1,
    "int n;\nn = __builtin_riscv_frflags();": 2,
    "__builtin_riscv_fsflags(3);": 1,
    "int n = __builtin_flt_rounds();": 1,
    "void *p = __builtin_thread_pointer();": 1,
    "_writegsbase_u64(_readgsbase_u64() + 1);": 1,
    "__builtin_ia32_wrgsbase64(1);": 1,
    "_fxsave64(a);": 1,
    "_xrstor64(a, 7);": 1,
    "__builtin_ia32_xsaveopt(a, 7);": 1,
    "__builtin_ia32_writeeflags_u64(1);": 1,
    "__builtin_ia32_fnstenv(a);": 1,
    "unsigned n = _rdpkru_u32();": 1,
    'int x; "never closed\n': 1,
    "\n\0": 2,
    "\n// \r /*\nasm(1); // */": 2,
    '#define PASTE(a, b) a%:%:b\nPASTE(as, m)("nop");': 1,
    "// gcc joins these: \\ \n /*\nasm(1); // */": 3,
    "// gcc joins these: \\\t\f\v\n /*\nasm(1); // */": 3,
    'as\\ \nm("nop");': 1,
    "#define S(x) #x\nint a __attribute__((section(S(.data;.incbin))));": 1,
    "#define S(x) %:x\nint a __attribute__((section(S(.data;.incbin))));": 1,
    'int a;\nint b __attribute__((section(".x,\\"ax\\",@progbits\\n\\tsyscall#")));': 2,
    'static int x() __attribute__((weakref("y\\n.incbin \\"/etc/passwd\\"")));': 1,
    'void f(void) __attribute__((alias("g;.byte 1")));': 1,
    '#define NAME "a" "\\012"\nint b __attribute__((section(NAME)));': 1,
    'int b __attribute__((section("a" /* b */ "#")));': 1,
    'int b __attribute__((section(u8"a@b")));': 1,
    "#define X '\"'\nint b __attribute__((section(\"'\")));": 2,
    "int a; // a comment that goes on \\\n asm\nasm": 3,
    # Only a line's own last character joins it: the blank line ends the comment for compilers.
    "// a comment that goes on \\\\\n  \nasm(1);": 3,
}


@pytest.mark.parametrize("source", REFUSED)
def test_reaching_out_is_refused_with_its_line(source: str) -> None:
    failed = check_source(source)
    assert failed is not None
    assert (failed.stage, failed.kind, failed.line) == ("build", "compile_error", REFUSED[source])
    assert failed.log.startswith(f"kernel.c:{failed.line}: ")


@pytest.mark.parametrize(
    "source",
    [
        '#include "gemmini.h"\n#include <stdint.h>\n',
        "#include <assert.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n",
        "#if defined(__has_builtin)\n#define HAS(x) __has_builtin(x)\n#endif\n",
        "struct __attribute__((__packed__)) block { int rows; };\n",
        "#define TILE 16 // asm in a comment\n/* #include <fcntl.h> */\n",
        "#pragma GCC unroll 4\nfor (;;) {}",
        "#if TILE > 3 && defined(X)\n#elif 1\n#else\n#endif\n#undef TILE\n",
        "int plasma = 1, asm_rows = 2; /* unfinished",
        'const char *s = "// no comment"; int c = \'"\';',
        "int c = '#' + '\\n' + '\"';",
        'int a __attribute__((section(".data.mine"))); // "#" \n',
        '__attribute__((target("avx2,arch=haswell"), optimize("O3", "-funroll-loops"))) int f();',
        "",
        "\\",
        "int a;\r\nint b; /* \\\r\n */\r\n",
        create_target().open("gemm-200x80x30", {}).start,
    ],
)
def test_ordinary_c_is_accepted(source: str) -> None:
    assert check_source(source) is None


def test_who_writes_pragma_as_an_operator_is_told_the_form_that_is_allowed() -> None:
    failed = check_source('#define UNROLLED _Pragma("GCC unroll 4")')
    assert failed is not None
    assert "write #pragma on a line of its own" in failed.log


def test_a_huge_source_is_refused() -> None:
    failed = check_source("/" * (MAX_SOURCE_BYTES + 1))
    assert failed is not None
    assert "longer than" in failed.log


@given(st.text(alphabet="#%:includeasm_\"'/*\\ \n<>gthd.x0"))
def test_any_text_is_judged_without_an_exception(source: str) -> None:
    check_source(source)


@given(st.text(alphabet="ab {}();\n\t/*", max_size=40), st.text(max_size=20))
def test_an_include_on_a_line_of_its_own_is_found_after_closed_comments(
    before: str, after: str
) -> None:
    if before.count("/*") or before.endswith("/"):
        return
    failed = check_source(f"{before}\n#include <fcntl.h>\n{after}")
    assert failed is not None


@pytest.mark.parametrize(
    "name",
    ["DATE", "TIME", "TIMESTAMP", "COUNTER", "FILE", "FILE_NAME", "BASE_FILE", "INCLUDE_LEVEL"],
)
def test_macros_that_differ_between_two_builds_are_refused(name: str) -> None:
    failed = check_source(f"void kernel(void) {{\n  int x = (int)__{name}__;\n}}\n")
    assert failed is not None
    assert f"__{name}__ is not allowed in a kernel: its value depends on where, when" in failed.log
    assert failed.line == 2
    assert check_source("int x = __LINE__, y = __GNUC__;\n") is None


def test_baselines_may_use_the_hardware_loops() -> None:
    assert check_source('#include "gemmini_loops.h"\n', LOOP_HEADERS) is None
    assert check_source("#include <fcntl.h>\n", LOOP_HEADERS) is not None


def test_the_hardware_loops_are_for_the_sources_of_baselines_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluator, "compile_kernel", lambda *given: b"compiled")
    toolchain = cast(Toolchain, SimpleNamespace(id="none"))
    source = '#include "gemmini_loops.h"\nvoid kernel(void) {}\n'
    builder = GemminiBuilder(toolchain, create_target().instance, 1.0, baselines={source})
    assert isinstance(builder.build(Candidate(source)), Artifact)
    refused = builder.build(Candidate(source + "// changed\n"))
    assert isinstance(refused, Failed)
    assert (refused.kind, refused.line) == ("compile_error", 1)


@pytest.mark.parametrize(
    "source",
    [
        "a\\\n" * 250_000,
        '"' + '\\"' * 250_000,
        "'" + "\\'" * 250_000,
        "/*" * 250_000,
        '\\"' * 250_000,
    ],
    ids=["broken lines", "open string", "open character", "open comments", "quotes"],
)
def test_reading_takes_time_in_proportion_to_the_text(source: str) -> None:
    before = time.process_time()
    check_source(source)
    assert time.process_time() - before < SECONDS


SECONDS = 20.0
"""For what takes a second; minutes where the time grows with the square of the text."""
