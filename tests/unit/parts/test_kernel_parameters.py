"""A kernel whose parameters are not the arguments is told so, where the text says it clearly."""

from __future__ import annotations

import time

import pytest

from tilewright.core.records import Argument, Failed
from tilewright.parts.kernel_parameters import named_parameters, wrong_parameters
from tilewright.parts.languages import C

ARGUMENTS = (
    Argument("A", (8, 16), "float32", "input"),
    Argument("B", (16,), "int8", "input"),
    Argument("C", (8,), "float16", "output"),
)
BODY = " {\n}\n"
RIGHT = [
    "const float A[8][16], const int8_t B[16], uint16_t C[8]",
    "const float *restrict A, const signed char *B, _Float16 *C",
    "const float (*A)[16], const int8_t *B, uint16_t *C",
    "const float A[restrict 8][16], const int8_t *b, void *out",
    "const uint32_t *A, const int8_t *, uint16_t *C",
    "const elem_t A[8][16], const elem_t *B, uint16_t *C",
    "const float A[8][ROWS], const int8_t *B, uint16_t *C",
    "const float A[128], const int8_t B[16], uint16_t C[8]",
    "const float A[8] /* rows, of */ [16], // and, more\n const int8_t *B, uint16_t *C",
]
WRONG = [
    ("const float *A, uint16_t *C", "the kernel has 2 parameters, but it is called with 3 argum"),
    ("void", "the kernel has 0 parameters"),
    ("const float *A, const int8_t *B, uint16_t *C, int n", "the kernel has 4 parameters"),
    (
        "const double *A, const int8_t *B, uint16_t *C",
        "parameter 1 of the kernel is `const double *A`",
    ),
    ("const float *A, const float *B, uint16_t *C", "parameter 2"),
    ("const float *A, const uint8_t *B, uint16_t *C", "parameter 2"),
    ("const float *A, const int8_t *B, float *C", "parameter 3"),
    ("const float A[8][8], const int8_t *B, uint16_t *C", "but argument 1 is A float32[8][16]"),
    ("uint16_t *C, const float *A, const int8_t *B", "parameter 1 of the kernel is `uint16_t *C`"),
]


@pytest.mark.parametrize("parameters", RIGHT)
def test_what_may_be_right_is_not_called_wrong(parameters: str) -> None:
    assert wrong_parameters(f"void kernel({parameters}){BODY}", ARGUMENTS) is None


@pytest.mark.parametrize(("parameters", "reason"), WRONG)
def test_other_parameters_are_named_with_their_line(parameters: str, reason: str) -> None:
    source = f"#include <stdint.h>\nvoid kernel(const float *);\nvoid kernel({parameters}){BODY}"
    found = wrong_parameters(source, ARGUMENTS)
    assert found is not None
    assert found[0].startswith(reason) or reason in found[0]
    assert found[1] == 3


@pytest.mark.parametrize(
    "source",
    [
        "",
        "void other(float *A) {}",
        "#define kernel other\nvoid kernel(float *A) {}",
        "#define TWO float *A, float *B\nvoid kernel(TWO) {}",
        "// void kernel(float *A) {}\n",
        "void kernel(float *A",
        "#define KERNEL void kernel(float *A) {}\nKERNEL\n",
        "#define KERNEL \\ \nvoid kernel(float *A) {}\nKERNEL\n",
        f"#if 0\nvoid kernel(float *A) {{}}\n#endif\nvoid kernel({RIGHT[0]}) {{}}",
        "#if 0\nvoid kernel(float *A) {}\n#endif\n",
        "#ifdef __AVX2__\n#if 1\n#endif\nvoid kernel(float *A) {}\n#endif\n",
        "%: if 0\nvoid kernel(float *A) {}\n%:endif\n",
        "void kernel(float *A\n#if 1\n, float *B\n#endif\n) {}",
        "void\n#if 1\nkernel(float *A) {}\n#endif",
        "void kernel(float *A) {}\nvoid kernel(float *A, float *B) {}",
        "void kernel(float *A);\n" * 8 + "void kernel(float *A) {}",
        "void kernel(float *A; float *B) {}",
        f"void kernel(float *A{' ' * 5000}) {{}}",
    ],
)
def test_what_the_text_does_not_say_is_regarded_as_right(source: str) -> None:
    assert wrong_parameters(source, ARGUMENTS) is None


def test_conditions_before_a_definition_do_not_matter() -> None:
    source = "#if 1\n#define X\n#else\n#endif\nvoid kernel(float *A) {\n#if 1\n#endif\n}\n"
    found = wrong_parameters(source, ARGUMENTS)
    assert found is not None
    assert found[1] == 5


@pytest.mark.parametrize("text", ["void kernel(", "/*", "#\\\n", "void ", "#if 1\n"], ids=ascii)
def test_the_time_is_linear_in_the_length_of_a_source(text: str) -> None:
    began = time.process_time()
    assert wrong_parameters(text * (400_000 // len(text)), ARGUMENTS) is None
    assert time.process_time() - began < 10  # about 0.1 s


@pytest.mark.parametrize(
    ("kind", "told"),
    [("wrong_result", True), ("input_modified", True), ("illegal_address", True), ("crash", True),
     ("timeout", False), ("untested_condition", False)],
)  # fmt: skip
def test_only_failures_that_confused_arguments_cause_are_explained(kind: str, told: bool) -> None:
    failed = Failed("check", kind, "log")
    found = named_parameters(failed, f"void kernel(float *A){BODY}", ARGUMENTS, C)
    assert (found is not failed) == told


def test_the_failure_keeps_what_the_check_found() -> None:
    failed = Failed("check", "wrong_result", "8 of 8 elements of C differ", 7)
    told = named_parameters(failed, f"void kernel(float *A){BODY}", ARGUMENTS, C)
    assert (told.stage, told.kind, told.line) == ("check", "compile_error", 1)
    assert told.log == (
        "kernel.c:1: the kernel has 1 parameter, but it is called with 3 arguments: "
        "A float32[8][16], B int8[16], C float16[8].\n8 of 8 elements of C differ"
    )
    assert named_parameters(failed, f"void kernel({RIGHT[0]}){BODY}", ARGUMENTS, C) is failed
