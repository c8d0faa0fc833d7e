"""Stands for nvcc on machines without a GPU: its programs run kernels on this CPU.

    nvcc --version | nvcc -cubin ... | nvcc -c ... program.cu -o FILE | nvcc A.o B.o -o program

It is copied into a folder `bin` of a toolkit, beside `lib` with the emulator's headers,
`launches.py` and the object file of its runtime. Calls of the emulator get the names of those of
CUDA, so that the rules for object files are the same ones.
"""

import re
import subprocess
import sys
from pathlib import Path

LIB = Path(__file__).resolve().parent.parent / "lib"
RENAMED = {
    "tw_launch": "cudaLaunchKernel",
    "tw_allocate": "cudaMalloc",
    "tw_release": "cudaFree",
    "tw_copy": "cudaMemcpy",
    "tw_fill": "cudaMemset",
    "tw_stream": "cudaStreamCreateWithFlags",
    "tw_event": "cudaEventCreate",
    "tw_record": "cudaEventRecord",
    "tw_wait": "cudaStreamWaitEvent",
    "tw_host_waits": "cudaStreamSynchronize",
    "tw_host_waits_for_all": "cudaDeviceSynchronize",
    "tw_allow_shared": "cudaFuncSetAttribute",
    "tw_rounded": "__cudaRegister_tw_rounded",
    "tw_is_large": "__cudaRegister_tw_is_large",
    "tw_the_device": "cudaDeviceGetAttribute",
    "tw_address": "__cudaRegister_tw_address",
}
OF_THREADS = (
    "tw_barrier tw_barrier_sum tw_warp tw_lane tw_active tw_trap tw_atomic tw_fence "
    "tw_dynamic_shared tw_copy_later tw_end_batch tw_wait_for_copies "
    "tw_false_promise tw_read_only tw_lend tw_lent tw_scattered "
    "threadIdx blockIdx blockDim gridDim"
)
FLAGS = ["-std=c++17", "-w", "-O1", "-fno-pie", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off",
         "-fno-stack-protector", "-fno-threadsafe-statics", "-D_FORTIFY_SOURCE=0"]  # fmt: skip
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
KERNEL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__"
                    r"\s*\([^)]*\)\s*)?(\w+)")  # fmt: skip


def renamed(path: str) -> None:
    names = {**RENAMED, **{name: f"__cudaRegister_{name}" for name in OF_THREADS.split()}}
    words = [word for old, new in names.items() for word in ("--redefine-sym", f"{old}={new}")]
    subprocess.run(["objcopy", *words, path], check=True)


def report(functions: list[str]) -> None:
    for name in functions:
        print(f"ptxas info    : Compiling entry function '_Z{len(name)}{name}v' for 'sm_90'")
        print("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads")
        print("ptxas info    : Used 32 registers, used 1 barriers, 0 bytes smem")


def compile_file(source: str, output: str) -> int:
    sys.path.insert(0, str(LIB))
    from launches import for_the_cpu

    text = Path(source).read_text()
    functions = KERNEL.findall(text)
    text = for_the_cpu(text)
    includes = "\n".join(INCLUDE.findall(text))
    whole = f'#include "device.h"\n#include "more.h"\n{includes}\n{INCLUDE.sub("", text)}'
    Path("whole.cpp").write_text(whole)
    done = subprocess.run(["g++", *FLAGS, f"-I{LIB}", "-c", "whole.cpp", "-o", output],
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        print(re.sub(r"(\w+\.cu):(\d+):\d+: error", r"\1(\2): error", done.stderr))
        return 1
    renamed(output)
    report(functions)
    return 0


def main(words: list[str]) -> int:
    if words == ["--version"]:
        print("Cuda compilation tools, release 13.0, V13.0.1")
        return 0
    output = words[words.index("-o") + 1]
    if "-cubin" in words:
        Path(output).write_bytes(b"machine code")
        report(KERNEL.findall(Path("program.cu").read_text()))
        return 0
    if "-c" in words:
        return compile_file("program.cu", output)
    objects = [word for word in words if word.endswith(".o")]
    return subprocess.run(
        ["g++", "-no-pie", *objects, str(LIB / "runtime.o"), "-o", output]
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
