"""What a kernel's text may not contain, however it is disguised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.parts.source_rules import MAX_SOURCE_BYTES
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.source_rules import LOOP_HEADERS, check_source

REFUSED = {
    '#include "/etc/passwd"': 1,
    "#include <stdio.h>": 1,
    "\n # /* so */ include /* what */ <stdio.h>": 2,
    "\n\n%:include <stdio.h>": 3,
    '#inc\\\nlude "../../secret"': 1,
    '\n/* a\n comment */ #include "x.h"': 3,
    "/* a */ /* b */\n#define H <stdio.h>\n#include H": 3,
    '#include_next "gemmini.h"': 1,
    '#include "gemmini_loops.h"': 1,  # the baselines' alone
    '#import "gemmini.h"': 1,
    '#embed "/etc/passwd"': 1,
    'int x;\nvoid kernel(void) { asm("nop"); }': 2,
    'void kernel(void) { __asm__ volatile (".incbin \\"/etc/passwd\\""); }': 1,
    'register int x __asm("a0");': 1,
    '#define PASTE(a, b) a##b\nPASTE(as, m)("nop");': 1,
    '_Pragma("GCC dependency \\"/etc/passwd\\"")': 1,
    '#pragma GCC dependency "/etc/passwd"': 1,
    '#if __has_include("/etc/passwd")': 1,
    '#line 7 "/etc/passwd"': 1,
    "#if 0\n' /*\n#endif\nasm(1);\n// */": 2,
    'const char *s = R"(" /* )"; asm(1); // */': 1,
    'const char *s = u8R"x(" /* )x";': 1,
    "int \\u0061sm;": 1,
    'int x; "never closed\n': 1,
    "\n\0": 2,
    "\n// \r /*\nasm(1); // */": 2,
    "int a; // a comment that goes on \\\n asm\nasm": 3,
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
        "#define TILE 16 // asm in a comment\n/* #include <stdio.h> */\n",
        "#pragma GCC unroll 4\nfor (;;) {}",
        "#if TILE > 3 && defined(X)\n#elif 1\n#else\n#endif\n#undef TILE\n",
        "int plasma = 1, asm_rows = 2; /* unfinished",
        'const char *s = "// no comment"; int c = \'"\';',
        "",
        "\\",
        "int a;\r\nint b; /* \\\r\n */\r\n",
        create_target().open("gemm-200x80x30", {}).start,
    ],
)
def test_ordinary_c_is_accepted(source: str) -> None:
    assert check_source(source) is None


def test_a_huge_source_is_refused() -> None:
    failed = check_source("/" * (MAX_SOURCE_BYTES + 1))
    assert failed is not None
    assert "longer than" in failed.log


@given(st.text(alphabet="#%:includeasm_\"'/*\\ \n<>gthd.x0"))
def test_any_text_is_judged_without_an_exception(source: str) -> None:
    check_source(source)


@given(st.text(alphabet="ab {}();\n\t/*", max_size=40), st.text(max_size=20))
def test_an_include_on_a_line_of_its_own_is_found_behind_closed_comments(
    before: str, after: str
) -> None:
    if before.count("/*") or before.endswith("/"):
        return
    failed = check_source(f"{before}\n#include <stdio.h>\n{after}")
    assert failed is not None


def test_baselines_may_use_the_hardware_loops() -> None:
    assert check_source('#include "gemmini_loops.h"\n', LOOP_HEADERS) is None
    assert check_source("#include <stdio.h>\n", LOOP_HEADERS) is not None
