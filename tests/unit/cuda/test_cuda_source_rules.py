"""What a CUDA source may hold, and what of it only a GPU can run."""

from __future__ import annotations

import pytest

from tilewright.targets.cuda.source import only_a_gpu, refused

ALLOWED = [
    "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n__global__ void f() { __trap(); }",
    "#define TILE 16\n#if TILE > 8\nint a;\n#endif",
    "__device__ __forceinline__ float g(float x) { return __shfl_xor_sync(~0u, __expf(x), 1); }",
    'void f() { asm volatile("cp.async.wait_all;\\n" ::); }',
    "#pragma unroll 4\nint a;",
]
REFUSED = {
    "#ifdef __CUDA_ARCH__\nint a;\n#endif": "__CUDA_ARCH__",
    "#ifndef __SANITIZE_ADDRESS__\nint a;\n#endif": "__SANITIZE_ADDRESS__",
    "#if defined(__NVCC__)\nint a;\n#endif": "__NVCC__",
    "int a = __cplusplus;": "__cplusplus",
    "int a = __GNUC__;": "same for every compiler",
    "#include <vector>": "vector",
    "#include <cub/../secret.h>": "secret.h",
    "#include </etc/passwd>": "/etc/passwd",
    "#define S(a, b) a##b\nint S(c, d);": "#",
    "#pragma GCC optimize 3": "pragma",
    'const char *a = R"(b)";': "raw",
    "__CONCAT(a, b)": "__CONCAT",
    "__glibc_likely(a)": "__glibc_likely",
}


@pytest.mark.parametrize("source", ALLOWED)
def test_cuda_is_allowed(source: str) -> None:
    assert refused(source) is None


@pytest.mark.parametrize("source", REFUSED)
def test_what_tells_compilers_apart_or_reaches_beyond_the_source_is_refused(source: str) -> None:
    failed = refused(f"int before;\n{source}")
    assert failed is not None
    assert REFUSED[source] in failed.log
    assert failed.line is not None
    assert failed.line >= 2


@pytest.mark.parametrize(
    "source",
    [
        'void f() { asm volatile("mma.sync" ::); }',
        "void f() { cublasSgemm(h); }",
        "cuda::barrier<cuda::thread_scope_block> b;",
        "auto g = cooperative_groups::this_grid();",
        "#include <cub/block/block_reduce.cuh>",
    ],
)
def test_what_only_a_gpu_can_run_is_known_with_its_line(source: str) -> None:
    found = only_a_gpu(f"\n{source}")
    assert found is not None
    assert found[1] == 2


def test_comments_and_names_need_no_gpu() -> None:
    assert only_a_gpu('// asm volatile("x")\nint asm_count; const char *a = "cublas";') is None
