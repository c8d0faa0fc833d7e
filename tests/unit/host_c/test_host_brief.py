"""What models are told of the processor and of the compiler."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from tilewright.core.compiled_code import CodeLoop
from tilewright.core.config import Settings
from tilewright.core.records import Measured
from tilewright.evaluating import evaluate_kernel
from tilewright.native.allowed_calls import MATHEMATICS, refused_call
from tilewright.native.disassembly import compiled_code
from tilewright.native.machine import Processor, processor
from tilewright.native.toolchain import compile_kernel, find_toolchain
from tilewright.parts.brief_files import load_examples, render
from tilewright.proposers.llm.prompts.render import examples_of
from tilewright.targets.host_c.target import FOLDER, HostTarget, words

SIZES = (1 << 15, 1 << 20, 1 << 25)


def test_the_processor_is_named_by_its_generation_and_its_instructions() -> None:
    """The name of a virtual processor alone does not tell how many instructions start per cycle."""
    core = Processor(
        "AMD EPYC", frozenset({"avx512f", "avx512_vnni"}), *SIZES, "family 25 model 17"
    )
    told = words(core, 1, openmp=False, compiler="gcc 12.2.0")
    assert told["processor"] == "AMD EPYC, family 25 model 17"
    assert told["instructions"] == "AVX512_VNNI, AVX512F"
    unknown = words(Processor("a core", frozenset(), *SIZES), 1, openmp=False, compiler="")
    assert unknown["processor"] == "a core"
    isa = HostTarget().brief().isa
    assert processor().generation in isa
    if find_toolchain().is_gcc:
        assert find_toolchain().id.rsplit(" ", 1)[-1] in isa


def test_rules_say_which_built_in_functions_and_which_errors_are_allowed() -> None:
    rules = HostTarget().brief().rules
    assert "`__builtin_prefetch`" in rules
    assert "`__builtin_ia32_...`" in rules
    assert "four times" in rules


WIDENED = """
#include <stdint.h>
{code}
void kernel(const uint8_t *p, const int8_t *q, int *U, int *S, int *M) {{
  for (int i = 0; i < 1024; i += 16, p += 16, q += 16) {{
    {statements}
    *(vi *)&U[i] = u;
    *(vi *)&S[i] = s;
  }}
}}
"""
"""The example of the ISA text as a kernel; its loop has two widening instructions if the text is
true.
"""


def loop_of(binary: bytes) -> CodeLoop:
    (loop,) = compiled_code(binary, 1, "kernel.c", {}).loops
    return loop


@pytest.mark.toolchain
def test_bytes_are_widened_by_one_instruction_as_the_isa_says() -> None:
    toolchain, core = find_toolchain(), processor()
    if not toolchain.is_gcc or core.vector_bytes < 64:
        pytest.skip("the text has this example for gcc and vectors of 64 bytes only")
    first, second, *_ = HostTarget().brief().isa.split("```c\n")[1:]
    types = "".join(line + "\n" for line in first.splitlines() if line.startswith("typedef"))
    example = second.split("```")[0].splitlines()
    statements = "\n".join(example[1:])
    source = WIDENED.format(code=types + example[0], statements=statements)
    binary = compile_kernel(toolchain, source, 60)
    assert isinstance(binary, bytes), binary
    loop = loop_of(binary)
    assert sum("vpmovzxbd" in one.text for one in loop.listing) == 1
    assert sum("vpmovsxbd" in one.text for one in loop.listing) == 1
    assert loop.count < 12
    if " 12." in toolchain.id:
        slow = "vi {0} = __builtin_convertvector(*(const {0}b *){1}, vi);"
        by_ones = "typedef {} {}b __attribute__((vector_size(16), aligned(1), may_alias));"
        code = types + by_ones.format("uint8_t", "u") + by_ones.format("int8_t", "s")
        both = slow.format("u", "p") + slow.format("s", "q")
        slower = compile_kernel(toolchain, WIDENED.format(code=code, statements=both), 60)
        assert isinstance(slower, bytes), slower
        loop = loop_of(slower)
        assert loop.count > 2 * 2.5 * 16


def test_the_text_on_widened_bytes_is_only_for_gcc_and_processors_with_the_instruction() -> None:
    def isa(compiler: str, *features: str) -> str:
        core = Processor("a core", frozenset(features), *SIZES)
        return render(FOLDER / "isa.md", words(core, 1, openmp=False, compiler=compiler))

    assert "pmovzxbd512" in isa("gcc 12.2.0", "avx2", "avx512f")
    assert "pmovzxbd512" not in isa("gcc 12.2.0", "avx2")
    assert "one by one" in isa("gcc 12.2.0", "avx2")
    assert "one by one" not in isa("clang version 14", "avx2", "avx512f")
    assert "one by one" not in isa("gcc 12.2.0", "asimd")


def test_rules_and_refusals_name_the_functions_that_may_be_called() -> None:
    refusal = refused_call("tgamma", 1)
    assert refusal is not None
    for text in (HostTarget().brief().rules, refusal):
        (named,) = re.findall(r"of math\.h for float and double: ([\w, ]+)", text)
        assert [name for name in re.findall(r"\w+", named) if name != "and"] == [*MATHEMATICS]


BYTES = """
#include <stdint.h>
#include <stdlib.h>
{code}
int main(void) {{
  static uint8_t a[1024];
  static int8_t b[1024];
  for (int round = 0; round < 1000; round++) {{
    int wanted = 0;
    for (int i = 0; i < 1024; i++) {{
      a[i] = rand(), b[i] = rand();
      wanted += a[i] * b[i];
    }}
    if (example(a, b) != wanted) return 1;
  }}
}}
"""


@pytest.mark.toolchain
@pytest.mark.slow
def test_the_example_of_bytes_is_right_and_uses_the_instruction(tmp_path: Path) -> None:
    (example,) = examples_of(HostTarget().brief().examples, "bytes")
    code = example.text.split("```c\n")[1].split("```")[0]
    file = tmp_path / "program.c"
    file.write_text(BYTES.format(code=code))
    toolchain = find_toolchain()
    program = tmp_path / "program"
    subprocess.run([toolchain.path, *toolchain.flags, file, "-o", program], check=True)
    subprocess.run([program], check=True)


@pytest.mark.toolchain
@pytest.mark.slow
def test_the_example_of_a_tile_in_registers_is_right_and_does_not_spill(tmp_path: Path) -> None:
    (example,) = examples_of(HostTarget().brief().examples, "register-tile")
    file = tmp_path / "kernel.c"
    file.write_text(example.text.split("```c\n")[1].split("```")[0])
    outcome = evaluate_kernel(file, "host-c:gemm-96x96x128", Settings()).outcome
    assert isinstance(outcome, Measured), outcome
    binary = compile_kernel(find_toolchain(), file.read_text(), 60)
    assert isinstance(binary, bytes), binary
    if not find_toolchain().is_gcc or platform.machine() != "x86_64":
        pytest.skip("the text speaks of gcc, and only machine code of x86-64 is read")
    loops = compiled_code(binary, 1, "kernel.c", {}).loops
    (inner,) = [loop for loop in loops if loop.innermost]
    assert inner.spill_loads + inner.spill_stores + inner.instructions.get("stores", 0) == 0
    assert inner.vector_work.get("multiply-adds") == 12
    assert inner.instructions["loads"] + inner.reads == 8


def test_the_example_of_bytes_needs_no_instruction_that_the_processor_lacks() -> None:
    known = words(Processor("a core", frozenset(), *SIZES), 1, openmp=False, compiler="")
    (example,) = examples_of(load_examples(FOLDER / "examples", known), "bytes")
    assert "__builtin_ia32" not in example.text
