"""Builds the program that calls a kernel on a GPU, and refuses kernels that could reach its clock.

A kernel's host code may call only the functions that a launcher needs, and may not define any
function that the program calls. Therefore, it cannot send answers to the evaluator, read a clock,
start threads or open files.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Failed
from tilewright.native.allowed_calls import refused_call
from tilewright.targets.cuda.messages import without_messages
from tilewright.targets.cuda.nvcc import HOW_TO_GET, Compiled, Nvcc, read_resources

PROGRAM = Path(__file__).with_name("program.cu")
FLAGS = (
    "-O3", "-std=c++17", "--extended-lambda", "--expt-relaxed-constexpr", "-lineinfo",
    "-Xptxas", "-v", "-Xcompiler", "-fvisibility=hidden",
)  # fmt: skip
"""The flags for kernels that run on a GPU, which are recorded with every result."""
_TIMEOUT_S = 120.0
_OF_CUDA = re.compile(
    r"cuda(Malloc(Async)?|Free(Async)?|Memcpy(2D)?(Async)?|Memcpy(To|From)Symbol(Async)?|"
    r"Memset(2D)?(Async)?|GetLastError|PeekAtLastError|GetErrorString|DeviceSynchronize|"
    r"FuncSetAttribute|LaunchKernel(ExC)?|LaunchCooperativeKernel|GetSymbolAddress|"
    r"Stream(Create(WithFlags|WithPriority)?|Destroy|Synchronize|WaitEvent|BeginCapture|EndCapture)"
    r"|Event(Create(WithFlags)?|Record(WithFlags)?|Destroy|Synchronize)|"
    r"Graph(Instantiate\w*|Launch|Destroy|ExecDestroy)|GetDevice(Properties)?|DeviceGetAttribute|"
    r"OccupancyMax\w+)(_ptsz|_v\d+|_ptds)?"
)
LOADING = frozenset({"cudaLibraryLoadData", "cudaLibraryGetKernel"})
"""Functions that load machine code, for host code that tilewright itself writes (for Triton's
kernels).
"""
_OF_THE_COMPILER = re.compile(
    r"__cuda(Register\w+|UnregisterFatBinary|PushCallConfiguration|PopCallConfiguration|InitModule|"
    r"LaunchKernel(_ptsz)?|GetKernel)"
    r"|__cxa_(atexit|guard_\w+|pure_virtual)|atexit|exit|__dso_handle|_GLOBAL_OFFSET_TABLE_|"
    r"__stack_chk_fail|__gxx_personality_v0|_Unwind_Resume|_ZSt9terminatev"
)
"""Functions that a kernel may refer to because nvcc writes a host version of each device function,
which ends the process with `exit`."""
_MAY_DEFINE = re.compile(r"tw_call|_Z(?!n[aw]|d[al])\w+|DW\.ref\.\w+|\.L\w*")
"""Names of C++ other than `new` and `delete`, which a kernel would replace in the whole program."""
_OF_LIBRARY = re.compile(
    r"_ZN?[rVKRO]*(?:S|9__gnu_cxx|10__cxxabiv1|11__gnu_debug|14__gnu_parallel)\w+"
)
"""Names of the C++ library's namespaces. Headers define them as templates or as inline functions,
whose symbols are weak.
"""


@dataclass
class DeviceCompiler:
    """Builds programs for one architecture. The part that all programs share is built once."""

    nvcc: Nvcc
    architecture: str
    _harness: list[bytes] = field(default_factory=list)

    def build(
        self, source: str, call: str, timeout_s: float, also: frozenset[str] = frozenset()
    ) -> tuple[bytes, Compiled] | Failed:
        """The program of a kernel, and the resources that each of its functions needs.

        `also` are further functions that its host code may call.
        """
        text = f'#line 1 "kernel.cu"\n{without_messages(source)}\n#line 1 "call.cu"\n{call}'
        made = self.nvcc.run({"program.cu": text}, self._words("kernel.o"), "kernel.o", timeout_s)
        if isinstance(made, Failed):
            return made
        object_file, log = made
        refused = refused_object(object_file, also)
        if refused is not None:
            return refused
        parts = {"kernel.o": object_file, "harness.o": self._of_all()}
        words = [f"-arch={self.architecture}", "kernel.o", "harness.o", "-o", "program"]
        linked = self.nvcc.run(parts, words, "program", timeout_s)
        if isinstance(linked, Failed):
            return Failed("build", "link_error", linked.log, linked.line)
        return linked[0], Compiled((object_file,), read_resources(log))

    def _of_all(self) -> bytes:
        if not self._harness:
            text = PROGRAM.read_text(encoding="utf-8")
            words = self._words("harness.o")
            made = self.nvcc.run({"program.cu": text}, words, "harness.o", _TIMEOUT_S)
            if isinstance(made, Failed):
                raise ToolchainMissingError(
                    f"{self.nvcc.id} cannot build the program that calls kernels on a GPU "
                    f"({made.log.strip()[-300:]}): {HOW_TO_GET}."
                )
            self._harness.append(made[0])
        return self._harness[0]

    def _words(self, output: str) -> list[str]:
        return ["-c", *FLAGS, f"-arch={self.architecture}", "program.cu", "-o", output]


def refused_object(data: bytes, also: frozenset[str] = frozenset()) -> Failed | None:
    """The reason why an object file may not be linked, or None."""
    try:
        table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
        symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
    except (ELFError, UnicodeDecodeError, ValueError):
        return Failed("build", "forbidden_call", "the kernel's object file cannot be read.")
    for symbol in symbols:
        name = symbol.name
        if not name or symbol["st_info"]["bind"] == "STB_LOCAL":
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            is_template = symbol["st_info"]["bind"] == "STB_WEAK"
            replaces = _OF_LIBRARY.fullmatch(name) is not None and not is_template
            if _MAY_DEFINE.fullmatch(name) is None or replaces:
                log = f"the kernel defines {name} with external linkage. Declare it `static`."
                return Failed("build", "forbidden_call", log)
        elif name not in also and not (
            _OF_CUDA.fullmatch(name)
            or _OF_THE_COMPILER.fullmatch(name)
            or refused_call(name, 1) is None
        ):
            log = (
                f"the kernel calls {name}: its host code may launch kernels, allocate, copy and "
                "clear on the device, and use streams, events and graphs, nothing else."
            )
            return Failed("build", "forbidden_call", log)
    return None
