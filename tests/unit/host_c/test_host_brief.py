"""What models are told of the processor and of the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import Measured
from tilewright.evaluating import evaluate_kernel
from tilewright.native.machine import Processor, processor
from tilewright.native.toolchain import find_toolchain
from tilewright.parts.brief_files import load_examples
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


BYTES = """
#include <stdint.h>
#include <string.h>
{code}
void kernel(const float A[32][32], const float B[32][32], float C[32][32]) {{
  static uint8_t a[1024];
  static int8_t b[1024];
  memcpy(a, A, 1024), memcpy(b, B, 1024);
  int wanted = 0;
  for (int i = 0; i < 1024; i++) wanted = wanted + a[i] * b[i];
  const int found = example(a, b);
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 32; j++) {{
      float s = (float)found - (float)wanted;
      for (int k = 0; k < 32; k++) s += A[i][k] * B[k][j];
      C[i][j] = s;
    }}
}}
"""


@pytest.mark.toolchain
@pytest.mark.slow
def test_the_example_of_bytes_is_right_and_uses_the_instruction(tmp_path: Path) -> None:
    (example,) = examples_of(HostTarget().brief().examples, "bytes")
    code = example.text.split("```c\n")[1].split("```")[0]
    file = tmp_path / "kernel.c"
    file.write_text(BYTES.format(code=code))
    outcome = evaluate_kernel(file, "host-c:gemm-32x32x32", Settings()).outcome
    assert isinstance(outcome, Measured), outcome


def test_the_example_of_bytes_needs_no_instruction_that_the_processor_lacks() -> None:
    known = words(Processor("a core", frozenset(), *SIZES), 1, openmp=False, compiler="")
    (example,) = examples_of(load_examples(FOLDER / "examples", known), "bytes")
    assert "__builtin_ia32" not in example.text
