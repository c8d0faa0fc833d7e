"""The emulator's own files: its headers, and what the compiler makes of its sources.

What the compiler makes is the same for every kernel, and half of what the first kernel of a process
takes. It is therefore kept for later processes (`parts.kept_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tilewright.core.records import content_id
from tilewright.parts.kept_files import kept
from tilewright.sandbox import open_folder, read_output
from tilewright.targets.cuda.nvcc import OWN_HEADERS

EMULATOR = Path(__file__).with_name("emulator")
_HEADERS = {
    "cuda_runtime.h": "device.h", "cuda.h": "device.h", "cuda_pipeline.h": "device.h",
    "cuda_pipeline_primitives.h": "device.h", "device_launch_parameters.h": "device.h",
    "cuda_runtime_api.h": "device.h", "math_constants.h": "device.h", "vector_types.h": "device.h",
    "cooperative_groups/reduce.h": "cooperative_groups.h",
}  # fmt: skip
"""Headers of the toolkit, with the headers that replace them."""
_MOST_BYTES, _TIMEOUT_S = 64 << 20, 60.0

Run = Callable[[Path, list[str], float], str | None]
"""Runs a compiler in a folder, with arguments and a time limit in seconds. The result is what it
said about a source that it refused, or None."""


class RefusedError(Exception):
    """The compiler does not accept a source of the emulator, for the reason in the message."""


def own_file(compiler: Sequence[str], run: Run, words: Sequence[str], output: str) -> bytes:
    """The file `output` that the compiler writes from the emulator's sources.

    `compiler` identifies the compiler that `run` runs. Raises `RefusedError`.
    """

    runtime = (EMULATOR / "runtime.cpp").read_text(encoding="utf-8")

    def made() -> bytes:
        with open_folder("tilewright-cpu-") as name:
            folder = Path(name)
            write_headers(folder)
            (folder / "runtime.cpp").write_text(runtime, encoding="utf-8")
            log = run(folder, [*words, "-o", output], _TIMEOUT_S)
            if log is not None:
                raise RefusedError(log)
            return read_output(folder / output, _MOST_BYTES)

    sources = [f"{name} {text}" for name, text in sorted(_headers().items())]
    key = content_id(*compiler, *words, output, *sources, runtime)
    return kept("cuda-emulator", key, made)


def write_headers(folder: Path) -> None:
    """Write the headers that replace those of the toolkit."""
    for name, text in _headers().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@cache
def _headers() -> Mapping[str, str]:
    """The text of each header by name."""
    paths = {path.name: path for path in EMULATOR.glob("*.h")} | OWN_HEADERS
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    return texts | {name: f'#include "{own}"\n' for name, own in _HEADERS.items()}
