"""Answers in KernelBench's form are read as text: what becomes of them, and what is refused."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Candidate, Failed, Measured, Verdict
from tilewright.targets.cuda.models import create_target
from tilewright.targets.cuda.models.answer_arguments import Form, InnerModule
from tilewright.targets.cuda.models.task import _of_the_header
from tilewright.targets.cuda.models.translation import translate

X = Argument("x", (4, 6), "float32", "input")
OUT = Argument("out", (4, 6), "float32", "output")
WEIGHT = Argument("conv_weight", (6,), "float32", "input")
FORM = Form((X, 2.5), (OUT,), (3,), {"conv.weight": WEIGHT})
ANSWER = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
__global__ void k() {}
torch::Tensor scale(torch::Tensor x, torch::Tensor w, int n, double f) { k<<<1, 1>>>(); return x; }
"""
declared = "torch::Tensor scale(torch::Tensor x, torch::Tensor w, int n, double f);"
ext = load_inline(name="e", cpp_sources=declared, cuda_sources=source, functions=["scale"])

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv = nn.Conv1d(1, 6, 1, bias=False)
        self.n = n
        self.ext = ext

    def forward(self, x, factor):
        rows, columns = x.shape
        out = self.ext.scale(x.contiguous(), self.conv.weight, self.n, factor)
        return out.view(rows, columns)
'''


def translated(old: str = "", new: str = "", form: Form = FORM) -> str | Failed:
    assert old in ANSWER
    return translate(ANSWER.replace(old, new, 1) if old else ANSWER, form)


def test_the_launcher_does_what_forward_does() -> None:
    text = translated()
    assert isinstance(text, str)
    assert "tw_answer::scale(tw_x, tw_conv_weight, 3LL, tw_torch::Real{2.5});" in text
    assert "tw_v0.view({4LL, 6LL})" in text
    declared = "const float *tw_p_x, const float *tw_p_conv_weight, float *tw_p_out"
    assert f"void kernel({declared})" in text


def test_an_extension_may_have_the_name_of_a_module_of_the_model() -> None:
    text = ANSWER.replace("ext = load", "conv = load").replace("        self.ext = ext\n", "")
    text = text.replace("self.ext.scale", "conv.scale")
    launcher = translate(text, FORM)
    assert isinstance(launcher, str), launcher.log
    assert "tw_answer::scale(tw_x, tw_conv_weight, " in launcher


NORM = InnerModule(
    "GroupNorm",
    {"num_groups": None, "num_channels": None, "eps": 1e-05},
    {"num_groups": 2, "num_channels": 6, "eps": 1e-05},
)
POOL = InnerModule(
    "MaxPool2d", {"kernel_size": None, "stride": None}, {"kernel_size": 2, "stride": 2}
)
WITH_MODULES = Form((X, 2.5), (OUT,), (3,), {"conv.weight": WEIGHT}, {"norm": NORM, "pool": POOL})


@pytest.mark.parametrize(
    ("made", "used", "given"),
    [
        ("norm = nn.GroupNorm(2, n + 3)", "norm.eps", "1e-05"),
        ("norm = nn.GroupNorm(2, 6, 0.25)", "norm.eps", "0.25"),
        ("norm = torch.nn.GroupNorm(2, 6, eps=0.25)", "norm.eps", "0.25"),
        ("norm = nn.LayerNorm(6)", "norm.eps", None),
        ("norm = nn.GroupNorm(2, 6, eps=n)", "norm.eps", None),
        ("norm = nn.GroupNorm(2, 6, **n)", "norm.eps", None),
        ("pool = nn.MaxPool2d(2)", "pool.stride", None),
        ("scale = n**-0.5", "scale", repr(3**-0.5)),
        ("scale = 1.0 / math.sqrt(n)", "scale", repr(1 / 3**0.5)),
        ("scale = (0 - n) ** 0.5", "scale", None),
        ("scale = n**65", "scale", None),
        ("sizes = (n, 0.5)", "sizes[1]", "0.5"),
    ],
)
def test_attributes_of_modules_and_numbers_have_the_values_that_python_gives_them(
    made: str, used: str, given: str | None
) -> None:
    text = ANSWER.replace("self.n = n", f"self.n = n\n        self.{made}")
    text = text.replace("self.n, factor", f"self.n, self.{used}").replace(
        "import torch\n", "import math\nimport torch\n", 1
    )
    found = translate(text, WITH_MODULES)
    if given is None:
        assert isinstance(found, Failed)
        assert found.kind == "not_checked"
    else:
        assert isinstance(found, str), found.log
        assert f"3LL, tw_torch::Real{{{given}}});" in found


@pytest.mark.parametrize("made", ["nn.Sequential(a)", "Other(a)", "nn.ModuleList([a])"])
def test_numbers_choose_modules_of_the_same_container_alone(made: str) -> None:
    weight = Argument("net_0_weight", (6,), "float32", "input")
    container = InnerModule("Sequential", {}, {})
    form = Form((X, 2.5), (OUT,), (3,), {"net.0.weight": weight}, {"net": container})
    text = ANSWER.replace("self.conv = nn.Conv1d(1, 6, 1, bias=False)", f"self.net = {made}")
    text = text.replace("self.conv.weight", "self.net[0].weight")
    found = translate(text, form)
    if made == "nn.Sequential(a)":
        assert isinstance(found, str), found.log
        assert "tw_answer::scale(tw_x, tw_net_0_weight" in found
    else:
        assert isinstance(found, Failed)
        assert found.kind == "not_checked"


def test_functions_may_return_several_tensors() -> None:
    two = Form((X, 2.5), (OUT, Argument("out1", (6,), "float32", "output")), (3,), FORM.state)
    for last, count in (
        ("a, b = out\n        return b, a", 2),
        ("return out[1], out[0]", 0),
        ("return out", 2),
    ):
        text = translated("return out.view(rows, columns)", last, two)
        assert isinstance(text, str), text.log
        assert f"tw_torch::part(tw_v0, 1, {count})" in text
    for last in ("a, b = out.view(2)\n        return b, a", "return out[-1], out[0]"):
        failed = translated("return out.view(rows, columns)", last, two)
        assert isinstance(failed, Failed)
        assert failed.kind == "not_checked"


def test_lines_are_those_of_the_answer() -> None:
    text = translated()
    assert isinstance(text, str)
    wanted = ANSWER.splitlines().index("__global__ void k() {}")
    assert text.splitlines()[wanted] == "__global__ void k() {}"
    refused = translated("__global__ void k() {}", "#pragma once")
    assert isinstance(refused, Failed)
    assert (refused.kind, refused.line) == ("not_checked", wanted + 1)
    assert f"kernel.py:{wanted + 1}: " in refused.log


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("self.n = n", "self.n = torch.ones(n).bool().requires_grad_()", 17, "is not known"),
        ("out.view(rows, columns)", "torch.relu(out)", 23, "a call of torch.relu"),
        ("out.view(rows, columns)", "out.sum(1)", 23, "sum is called"),
        ("out.view(rows, columns)", "out + x", 23, "not a number"),
        ("rows, columns = x.shape", "if x.is_cuda: x = 0", 21, "statement of forward"),
        ("self.conv.weight", "self.conv.bias2", 22, "self.conv.bias2"),
        ("self.n = n", "self.n = nn.Parameter(n)", 17, "of the reference model (conv.weight)"),
        ("self.conv = nn", "self.other = nn", 22, "self.conv is neither an array of the"),
        ("ext = load", "for i in (): pass\next = load", 11, "top level"),
        ("ext = load", "import triton.language as tl\next = load", 11, "init NAME --target triton"),
        (
            "cuda_sources=source",
            "cuda_sources=open('x').read()",
            11,
            "open('x').read() is not a number or a string",
        ),
        ("(nn.Module)", "(Model)", 13, "plain subclass"),
        ("def forward(self, x, factor)", "def forward(self, *x)", 20, "other than plain"),
    ],
)
def test_what_is_not_understood_is_not_checked(old: str, new: str, line: int, says: str) -> None:
    failed = translated(old, new)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind, failed.line) == ("check", "not_checked", line)
    assert says in failed.log
    assert "\n" not in failed.log


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("class ModelNew", "class Model", "defines no class ModelNew"),
        ("def forward", "def backward", "no method forward"),
        ("return out.view(rows, columns)", "return (", "not valid Python"),
        ("return out.view(rows, columns)", "return out, out", "returns 2 tensors"),
        ("ext = load", "x = " + "-" * 120 + "1\next = load", "nested"),
        ("scale(torch", "tw_scale(torch", "tw_scale"),
    ],
)
def test_what_is_no_answer_does_not_build(old: str, new: str, says: str) -> None:
    failed = translated(old, new)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("build", "compile_error")
    assert says in failed.log


KERNEL = "__global__ void k() {}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#pragma once", "#pragma once"),
        ("#ifdef DEBUG\n#endif", "DEBUG"),
        ("%:ifdef DEBUG\n%:endif", "DEBUG"),
        ("#if 1 || \\\\\n  defined(DEBUG)\n#endif", "DEBUG"),
        ("#include <chrono>", "it includes chrono"),
        ("#include <cub/cub.cuh>", "it includes cub/cub.cuh"),
        ('/* */ # /* */ include "/etc/passwd"', "it includes /etc/passwd"),
        ("#include <cuda_runtime.h> // \\\\\n", "backslash"),
        ("const char *file = __BASE_FILE__;", "__BASE_FILE__"),
        ('const char *text = R"(a)";', "raw string"),
        ("const int n = 1'000;", "a quote"),
        ('const int n = sizeof("\\\\n");', "is not allowed"),
        ('void f() { TORCH_CHECK(sizeof("\\\\n") == 3, "(says)"); }', "is not allowed"),
        ('#define F(TORCH_CHECK) TORCH_CHECK(1, "(a)")', "is not allowed"),
        (
            'int printf(const char *s, int *to);\nvoid f(int *a) { printf("(a)", a); }',
            "is not allowed",
        ),
        ('void f() {\n  asm volatile("// x"\n#include "/etc/passwd"\n  );\n}', "/etc/passwd"),
        ('void f() {\n  asm volatile("// x"\n#pragma message "x"\n  );\n}', "# is not allowed"),
        ('void f() {\n  asm volatile(R"( " )");\n}', "raw string"),
    ],
)
def test_text_that_could_be_read_differently_is_not_checked(text: str, says: str) -> None:
    failed = translated(KERNEL, f"{KERNEL}\n{text}")
    assert isinstance(failed, Failed)
    assert failed.kind == "not_checked", failed.log
    assert says in failed.log
    assert failed.line is not None
    assert failed.line >= 8


def test_what_a_comment_holds_is_no_text() -> None:
    text = translated(KERNEL, f'/*\n#include "/etc/passwd"\n#include <cfloat>\n*/ {KERNEL}')
    assert isinstance(text, str)
    assert "passwd" not in text
    assert "cfloat" not in text
    hidden = (
        "#include <torch/extension.h> /*\n#define one 1\n#include <vector> */\n#ifndef one\n#endif"
    )
    text = translated("#include <torch/extension.h>", hidden)
    assert isinstance(text, Failed)
    assert "not one" in text.log


def test_strings_stay_and_messages_go() -> None:
    text = translated(
        KERNEL,
        '#define CHECK(x) TORCH_CHECK(x.is_cuda(), #x " must be (a)")\n'
        f'extern "C" {KERNEL}\n__device__ const char one[] = "one";\n'
        'void f(int n) { TORCH_CHECK(n, "(n)", n); printf("%d", n); }',
    )
    assert isinstance(text, str), text.log
    assert 'extern "C" __global__' in text
    assert '"one"' in text
    assert "must be" not in text
    assert "(n)" not in text


def test_lines_that_are_joined_keep_their_numbers() -> None:
    text = translated(KERNEL, f"#define TWO \\\\\n  2 /* \n */ + 0\n{KERNEL}")
    assert isinstance(text, str), text.log
    assert "#define TWO   2   + 0\n\n\n__global__" in text


def test_a_macro_of_one_text_must_not_reach_another() -> None:
    failed = translated('declared = "', 'declared = "/**/ %:define scale other\\n')
    assert isinstance(failed, Failed)
    assert failed.kind == "not_checked"
    assert "scale is a macro" in failed.log


@pytest.mark.parametrize(
    ("complaint", "line", "kind"),
    [
        ('identifier "M_PI" is undefined', "int a = M_PI;", "not_checked"),
        ('expected a ";"', "void f() C10_NOEXCEPT {", "not_checked"),
        ('expected a ";"', "int a = 1", "compile_error"),
    ],
)
def test_complaints_about_names_of_others_say_nothing(complaint: str, line: str, kind: str) -> None:
    failed = Failed("build", "compile_error", f"kernel.py(1): error: {complaint}", 1)
    found = _of_the_header(failed, line, 1)
    assert found.kind == kind
    assert complaint.partition('"')[0] in found.log


@pytest.mark.parametrize(
    "part", ["/*", '\\\\"', "asm(", "TORCH_CHECK(", "#include ", "#define a ", "'"]
)
def test_long_texts_are_read_once(part: str) -> None:
    translated(KERNEL, part * (200_000 // len(part)))


def test_the_last_value_of_a_name_counts() -> None:
    later = translated("ext = load", 'source = source.replace("k()", "j()")\next = load')
    assert isinstance(later, Failed)
    assert later.kind == "not_checked"


def test_a_workload_whose_sizes_do_not_follow_from_its_inputs_is_refused() -> None:
    with pytest.raises(WorkloadError, match="cuda:stencil-64x64"):
        create_target().open("stencil-64x64", {})


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
def test_an_answer_is_timed_at_its_full_size_on_a_gpu(gpu: None) -> None:
    task = create_target().open("rowsum-200x64", {"input_seed": 3, "simulation_timeout_s": 30.0})
    assert task.form != task.full_form
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(task.start))
    assert not isinstance(artifact, Failed), artifact.log
    verdict = checker.check(artifact)
    assert isinstance(verdict, Verdict), verdict.log
    measured = runner.measure(artifact, verdict, None)
    assert isinstance(measured, Measured), measured
    assert measured.verdict.precision == "float32"


def test_a_function_that_pytorch_could_not_bind_is_refused() -> None:
    failed = translated('declared = "torch', 'declared = ""  # "torch')
    assert isinstance(failed, Failed)
    assert failed.kind == "compile_error"
    assert "cpp_sources does not declare scale" in failed.log
