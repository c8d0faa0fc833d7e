"""Writes host code that replaces a launcher: it loads the machine code of the kernels and launches
them.

It contains no Python, so only the time of the GPU and of the driver is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument
from tilewright.targets.cuda.launcher import parameters
from tilewright.targets.cuda.triton.recorded import TYPES, Place, Recorded, Started

_LOADED = """\
static const void *tw_kernel{number}() {{
  static cudaKernel_t found;
  if (!found) {{
    cudaLibrary_t library;
    if (cudaLibraryLoadData(&library, tw_code{number}, 0, 0, 0, 0, 0, 0) != cudaSuccess ||
        cudaLibraryGetKernel(&found, library, "{name}") != cudaSuccess) return nullptr;
    cudaFuncSetAttribute((const void *)found, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         {shared});
  }}
  return (const void *)found;
}}
"""


def host_code(
    recorded: Recorded, machine_codes: Sequence[bytes], arguments: Sequence[Argument],
    sizes: Mapping[str, int],
) -> str:  # fmt: skip
    """The text of kernel.cu for the `sizes` with which the launcher ran."""
    started = [event for event in recorded.events if isinstance(event, Started)]
    text = "#include <cuda_runtime.h>\n"
    for number, (code, name) in enumerate(zip(machine_codes, recorded.names, strict=True)):
        shared = max((e.shared_bytes for e in started if e.code == number), default=0)
        held = ",".join(str(byte) for byte in code)
        text += f"alignas(16) static const unsigned char tw_code{number}[] = {{{held}}};\n"
        text += _LOADED.format(number=number, name=name, shared=shared)
    body = list[str]()
    for number, size in enumerate(recorded.allocated, len(arguments)):
        body.append(f"void *tw_array{number} = nullptr;")
        body.append(f"if (cudaMallocAsync(&tw_array{number}, {size}ULL, 0) != cudaSuccess) return;")
    names = [a.name for a in arguments]
    names += [f"tw_array{n + len(arguments)}" for n in range(len(recorded.allocated))]
    for number, event in enumerate(recorded.events):
        body += _launched(number, event, names) if isinstance(event, Started) else [
            f"cudaMemsetAsync({_address(event.at, names)}, 0, {event.size}ULL, 0);"
        ]  # fmt: skip
    body += [f"cudaFreeAsync({name}, 0);" for name in names[len(arguments) :]]
    inner = "".join(f"  {line}\n" for line in body)
    return f"{text}void kernel({parameters(arguments, sizes)}) {{\n{inner}}}\n"


def _launched(number: int, event: Started, names: Sequence[str]) -> list[str]:
    lines, taken = list[str](), list[str]()
    for index, given in enumerate(event.given):
        own = f"tw_given{number}_{index}"
        if isinstance(given, Place):
            lines.append(f"void *{own} = {_address(given, names)};")
        else:
            lines.append(f"{TYPES[given.type]} {own} = ({TYPES[given.type]})({given.text});")
        taken.append(f"&{own}")
    lines.append(f"void *tw_none{number} = nullptr;")
    taken += [f"&tw_none{number}"] * event.missing
    x, y, z = event.grid
    lines.append(f"void *tw_taken{number}[] = {{{', '.join(taken)}}};")
    lines.append(
        f"cudaLaunchKernel(tw_kernel{event.code}(), dim3({x}, {y}, {z}), dim3({event.threads}), "
        f"tw_taken{number}, {event.shared_bytes}, 0);"
    )
    return lines


def _address(place: Place, names: Sequence[str]) -> str:
    return f"(void *)((char *){names[place.array]} + {place.offset}LL)"
