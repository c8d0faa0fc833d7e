"""What only a CUDA compiler reads is rewritten for one of the CPU, line by line."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tilewright.targets.cuda.launches import NotReadError, for_the_cpu

LAUNCHES = {
    "plain": ("add<<<4, 256>>>(A, n);", "add", "A, n", "4, 256"),
    "template": ("tile<16, 8><<<grid, block>>>(A);", "tile<16, 8>", "A", "grid, block"),
    "namespace": ("ops::add <<<1, 2, 0, s>>> (A);", "ops::add", "A", "1, 2, 0, s"),
    "calls inside": (
        "f<<<dim3(a(1), 2), g(b) >> 1>>>(h(A));",
        "f",
        "h(A)",
        "dim3(a(1), 2), g(b) >> 1",
    ),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_becomes_a_call(name: str) -> None:
    launch, called, values, settings = LAUNCHES[name]
    text = for_the_cpu(f"void kernel() {{\n  {launch}\n}}\n")
    assert "<<<" not in text
    assert f"{{ {called}(tw_given...); }}, {values});" in text
    assert f"tw::configured({settings})" in text
    assert ", 2, tw::configured" in text, "the line of the launch"


def test_a_null_pointer_among_arguments_stays_one() -> None:
    text = for_the_cpu("void f() { k<<<1, 2>>>(A, NULL, g(NULLS)); k<<<1, 1>>>(); }")
    assert "(tw_given...); }, A, nullptr, g(NULLS));" in text
    assert "(tw_given...); });" in text


def test_a_template_whose_arguments_the_call_tells_has_no_address() -> None:
    template = "template <class T> __global__ void __launch_bounds__(256) fill(T *to) {}\n"
    plain = "__global__ void add(float *to) {}\n"
    text = for_the_cpu(f"{template}{plain}void f() {{ fill<<<1, 2>>>(A); add<<<1, 2>>>(A); }}")
    assert 'launch("fill", nullptr' in text
    assert 'launch("add", tw::address_of(add)' in text
    assert "tw::address_of(fill<float>)" in for_the_cpu(
        f"{template}void f() {{ fill<float><<<1, 2>>>(A); }}"
    )


@pytest.mark.parametrize(
    ("parameters", "launched", "has_address"),
    [
        ("int M, int N", "run<8, 16>", True),
        ("int M, int N, class Op", "run<8, 16>", False),
        ("int M, int N = (3 > 2), class Op = F<int, 1>", "run<8>", True),
        ("template <class, int> class F, int N", "run<F>", False),
        ("int N, class... Types", "run<8, int>", False),
    ],
)
def test_a_template_has_an_address_if_no_argument_is_deduced(
    parameters: str, launched: str, has_address: bool
) -> None:
    template = f"template <{parameters}>\n__global__ void run(float *to) {{}}\n"
    text = for_the_cpu(f"{template}void f() {{ {launched}<<<1, 2>>>(A); }}")
    wanted = f"tw::address_of({launched})" if has_address else "nullptr"
    assert f'launch("run", {wanted}, 3' in text


def test_a_kernel_that_is_declared_for_several_types_has_no_address() -> None:
    kernels = "".join(f"__global__ void scale({kind} *to) {{}}\n" for kind in ("float", "half"))
    assert 'launch("scale", nullptr' in for_the_cpu(f"{kernels}void f() {{ scale<<<1, 2>>>(A); }}")


@pytest.mark.parametrize(
    "cast", ["(void *)", "(const void*)", "(void const *)", "reinterpret_cast<const void *>"]
)
def test_a_launch_by_pointers_keeps_the_type_of_its_function(cast: str) -> None:
    text = for_the_cpu(f"cudaLaunchKernel({cast}(tile<16>), grid, block, values, 0, 0);")
    assert text == "cudaLaunchKernel((tile<16>), grid, block, values, 0, 0);"
    other = "cudaFuncSetAttribute((const void *)tile, a, 1);"
    assert for_the_cpu(other) == other


def test_lines_keep_their_numbers() -> None:
    source = "a\nf<<<1,\n  2>>>(\n  A,\n  B);\nextern __shared__\n  float rows[];\nlast\n"
    text = for_the_cpu(source)
    assert text.splitlines()[-1] == "last"
    assert len(text.splitlines()) == len(source.splitlines())


def test_comments_and_texts_are_no_launches() -> None:
    source = '// f<<<1, 2>>>(A)\n/* g<<<1, 2>>>(A) */ const char *s = "h<<<1, 2>>>(A)";\n'
    assert for_the_cpu(source) == source


@pytest.mark.parametrize(
    "declared",
    ["extern __shared__ float rows[];", "extern __shared__ __align__(16) float rows[];"],
)
def test_dynamic_shared_memory_is_a_pointer(declared: str) -> None:
    text = for_the_cpu(declared)
    assert text == "float *const rows = (float *)tw_dynamic_shared();"


@pytest.mark.parametrize("source", ["f<<<1, 2(A);", "<<<1, 2>>>(A);", "f<<<1, 2>>>;"])
def test_a_launch_that_is_not_understood_is_told_with_its_line(source: str) -> None:
    with pytest.raises(NotReadError) as refused:
        for_the_cpu(f"\n\n{source}")
    assert refused.value.line == 3


def test_shared_memory_that_is_called_static_is_the_same() -> None:
    for words in ("static __shared__ float a[2];", "__shared__ static float a[2];"):
        assert for_the_cpu(words) == "__shared__ float a[2];"


def test_alignment_may_follow_the_word_for_shared_memory() -> None:
    found = for_the_cpu("__shared__ alignas(sizeof(float4) * 2) float a[2];")
    assert found == "alignas(sizeof(float4) * 2) __shared__ float a[2];"


LONG = {
    "a name": "a" * 200_000 + "\nf<<<1, 2>>>(A);",
    "spaces": "extern __shared__ x" + " " * 200_000,
    "templates": "template<" * 20_000 + " __global__ void f(",
    "bounds": "template<int> __global__ " + "__launch_bounds__(" * 11_000,
    "launches": "f<<<1, 2>>>(A);\n" * 12_000,
    "comments": "/*/" * 66_000,
    "texts": '\\"' * 100_000,
    "arguments": "f<" * 50_000 + "g>" * 49_000 + "<<<1, 2>>>(A);",
    "shared": "extern __shared__ " * 11_000,
    "alignment": "__shared__ alignas(" * 11_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LONG)
def test_long_texts_are_read_once(name: str) -> None:
    with suppress(NotReadError):
        for_the_cpu(LONG[name])
