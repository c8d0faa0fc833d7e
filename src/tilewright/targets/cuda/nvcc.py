"""The CUDA compiler in a sandbox: machine code for an architecture, and the resources of each
kernel."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed
from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output
from tilewright.targets.cuda.messages import without_messages

HOW_TO_GET = (
    "install the CUDA toolkit, version 12 or later, and put its bin folder on PATH (no GPU and no "
    "driver are needed to compile)"
)
FLAGS = (
    "-cubin", "-O3", "-std=c++17", "--extended-lambda", "--expt-relaxed-constexpr", "-lineinfo",
    "-Xptxas", "-v",
)  # fmt: skip
"""The flags of nvcc, which are recorded with every result."""
OWN_HEADERS = {
    "tilewright_tensors.h": Path(__file__).with_name("models") / "tensors.h",
}
"""Headers of this package for texts that it writes itself. Kernels must not include them."""
_USUAL = "/usr/local/cuda/bin/nvcc"
_MOST_BYTES, _MOST_LOG = 16 << 20, 8000
_VERSION = re.compile(r"release [\d.]+, V([\d.]+)")
_ERROR = re.compile(r"^kernel\.cu\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
_CALL = re.compile(r"^call\.cu\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one `__global__` function as ptxas reports them.

    `registers` and spilled bytes are per thread. `shared_bytes` is per block, without dynamic
    shared memory. `symbol` is the mangled name.
    """

    symbol: str
    registers: int
    spilled_bytes: int
    shared_bytes: int

    @property
    def name(self) -> str:
        """The name in the source; the symbol itself for templates and functions of a namespace."""
        mangled = re.match(r"_Z(\d+)", self.symbol)
        if mangled is None:
            return self.symbol
        name = self.symbol[mangled.end() :][: int(mangled[1])]
        is_template = self.symbol[mangled.end() + len(name) :].startswith("I")
        return self.symbol if is_template else name


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of a kernel's file, and the resources of each function in it."""

    cubins: tuple[bytes, ...]
    functions: tuple[Resources, ...]


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A usable compiler; `id` names its version."""

    path: str
    id: str
    sandbox: Sandbox

    def compile(
        self, source: str, call: str, architecture: str, timeout_s: float
    ) -> Compiled | Failed:
        """The machine code of a source followed by `call`, the code that calls its launcher."""
        text = f'#line 1 "kernel.cu"\n{without_messages(source)}\n#line 1 "call.cu"\n{call}'
        words = [*FLAGS, f"-arch={architecture}", "program.cu", "-o", "kernel.cubin"]
        made = self.run({"program.cu": text}, words, "kernel.cubin", timeout_s)
        return made if isinstance(made, Failed) else Compiled((made[0],), read_resources(made[1]))

    def run(
        self, files: Mapping[str, str | bytes], words: Sequence[str], output: str, timeout_s: float
    ) -> tuple[bytes, str] | Failed:
        """The file that a run of nvcc creates, and its output."""
        with open_folder("tilewright-nvcc-") as name:
            folder = Path(name)
            own = {name: path.read_bytes() for name, path in OWN_HEADERS.items()}
            for file, content in {**own, **files}.items():
                data = content.encode() if isinstance(content, str) else content
                (folder / file).write_bytes(data)
            finished = self.sandbox.run(
                [self.path, *words],
                folder,
                Limits(timeout_s, total_file_bytes=256 << 20),
                _environment(),
            )
            if finished.status is None:
                return Failed("build", "timeout", f"nvcc was stopped after {timeout_s:g} s.")
            log = finished.output.decode(errors="replace").replace(name, ".")
            if finished.status != 0:
                return _failed(log)
            try:
                return read_output(folder / output, _MOST_BYTES), log
            except OSError as error:
                return Failed("build", "compile_error", f"nvcc wrote no machine code: {error}.")


def read_resources(report: str) -> tuple[Resources, ...]:
    """The report of `ptxas -v` on every function that can be launched."""
    parts = _ENTRY.split(report)
    found = []
    for symbol, text in zip(parts[1::2], parts[2::2], strict=True):
        registers, shared, spills = (p.search(text) for p in (_REGISTERS, _SHARED, _SPILLS))
        found.append(
            Resources(
                symbol,
                int(registers[1]) if registers else 0,
                int(spills[2]) + int(spills[3]) if spills else 0,
                int(shared[1]) if shared else 0,
            )
        )
    return tuple(found)


@cache
def find_nvcc() -> Nvcc:
    """The compiler on PATH or in the toolkit's usual folder.

    Raises `ToolchainMissingError` if there is none that can be started.
    """
    path = shutil.which("nvcc") or shutil.which(_USUAL)
    if path is None:
        raise ToolchainMissingError(
            f"kernels of target cuda are compiled by nvcc, which is not on PATH: {HOW_TO_GET}."
        )
    home = Path(path).resolve().parent.parent
    readable = () if home in (Path("/"), Path.home()) else (home,)
    try:
        sandbox = find_sandbox(readable, [path, "--version"], _environment())
        with open_folder("tilewright-probe-") as folder:
            printed = sandbox.run([path, "--version"], Path(folder), Limits(30.0), _environment())
    except OSError as error:
        raise ToolchainMissingError(f"{path} cannot be started ({error}): {HOW_TO_GET}.") from error
    version = _VERSION.search(printed.output.decode(errors="replace"))
    return Nvcc(path, f"nvcc {version[1] if version else 'of unknown version'}", sandbox)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "")}


def _failed(log: str) -> Failed:
    error = _ERROR.search(log)
    if error is None and _CALL.search(log):
        log = f"kernel.cu defines no `kernel` with the parameters of the starting kernel:\n{log}"
    line = int(error[1]) if error else None
    return Failed(
        "build", "compile_error", log[:_MOST_LOG] or "nvcc failed without a message.", line
    )
