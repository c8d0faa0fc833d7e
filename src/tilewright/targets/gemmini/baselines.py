"""The baseline kernels with which results are compared, as in published work.

naive: a static loop nest like a first version that is written by hand (the starting kernel).
library: one routine for all sizes, as a vendor's library has it: fixed loop order, tiles chosen by
         a heuristic that fills the local memories, bounds and addresses computed at run time.
tuned:   a static schedule written by hand for these sizes; missing if the sizes do not fit the
schedule. fsm:     a library routine that passes tiles to the hardware loop unrollers; missing if
the fields of their commands cannot hold the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.naive import naive_convolution, naive_gemm, parameters
from tilewright.targets.gemmini.tinympc import TinyMpc
from tilewright.targets.gemmini.tinympc_naive import naive_tinympc
from tilewright.targets.gemmini.tinympc_tuned import library_tinympc, tuned_tinympc
from tilewright.targets.gemmini.tuned import tuned_gemm
from tilewright.targets.gemmini.tuned_convolution import tuned_convolution

_LIBRARY = Path(__file__).parent / "library"


def gemm_baselines(gemm: Gemm, instance: Instance) -> Mapping[str, str]:
    """Sources by name, slowest first."""
    return _present({
        "naive": naive_gemm(gemm, instance),
        "library": _library_gemm(gemm, instance, "gemm.c"),
        "tuned": tuned_gemm(gemm, instance),
        "fsm": _library_gemm(gemm, instance, "fsm_gemm.c"),
    })  # fmt: skip


def convolution_baselines(conv: Convolution, instance: Instance) -> Mapping[str, str]:
    """Sources by name, slowest first."""
    library = _library_convolution(conv, instance, "convolution.c")
    fsm = _library_convolution(conv, instance, "fsm_convolution.c")
    return _present({
        "naive": naive_convolution(conv, instance),
        "library": library if _library_fits(conv, instance) else None,
        "tuned": tuned_convolution(conv, instance),
        "fsm": fsm if _unroller_fits(conv, instance) else None,
    })  # fmt: skip


def tinympc_baselines(mpc: TinyMpc, instance: Instance) -> Mapping[str, str]:
    """Sources by name, slowest first."""
    return _present({
        "naive": naive_tinympc(mpc, instance.dim),
        "library": library_tinympc(mpc),
        "tuned": tuned_tinympc(mpc, instance),
        "fsm": library_tinympc(mpc, by_loop_unroller=True),
    })  # fmt: skip


def _present(sources: Mapping[str, str | None]) -> Mapping[str, str]:
    return {name: source for name, source in sources.items() if source is not None}


def _library_gemm(gemm: Gemm, instance: Instance, file: str) -> str:
    """The routine, called with sizes that the compiler does not know."""
    elem = instance.element.c
    return (
        _read(file)
        + f"""
static const volatile int sizes[3] = {{{gemm.m}, {gemm.n}, {gemm.k}}};

void kernel(const {elem} A[{gemm.m}][{gemm.k}], const {elem} B[{gemm.k}][{gemm.n}], \
{elem} C[{gemm.m}][{gemm.n}]) {{
  matmul(&A[0][0], &B[0][0], &C[0][0], sizes[0], sizes[1], sizes[2]);
}}
"""
    )


def _library_fits(conv: Convolution, instance: Instance) -> bool:
    """Whether the routine's smallest tile, a row of pixels by one block, fits the scratchpad."""
    limits, dim = instance.limits, instance.dim
    half = limits["scratchpad_banks"] * limits["scratchpad_bank_rows"] // 2
    columns = (min(dim, conv.output_shape[2]) - 1) * conv.stride + conv.size
    return conv.size**2 * dim <= half and conv.size * columns <= half


def _unroller_fits(conv: Convolution, instance: Instance) -> bool:
    """Whether the sizes fit into the fields of the loop commands, and one output pixel into the
    unroller's half of the scratchpad.
    """
    limits, dim = instance.limits, instance.dim
    half = limits["scratchpad_banks"] * limits["scratchpad_bank_rows"] // 2
    # The unroller loads stride - 1 more columns than needed.
    pixels = conv.stride * (conv.stride + conv.size - 1)
    weights = conv.size * min(dim, conv.channels)
    largest = max(*conv.input_shape, *conv.output_shape)
    return conv.stride < 1 << 8 and largest < 1 << 16 and pixels + weights <= half


def _library_convolution(conv: Convolution, instance: Instance, file: str) -> str:
    """As `_library_gemm`."""
    batch, height, width, channels = conv.input_shape
    _, rows, columns, filters = conv.output_shape
    fields = (batch, height, width, channels, rows, columns, filters, conv.size, conv.stride)
    values = ", ".join(map(str, fields))
    return (
        _read(file)
        + f"""
static const volatile int sizes[{len(fields)}] = {{{values}}};

void kernel({parameters(conv, instance)}) {{
  const Shape shape = {{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
                       sizes[5], sizes[6], sizes[7], sizes[8]}};
  convolve(&shape, &input[0][0][0][0], &weights[0][0][0][0], bias, &output[0][0][0][0]);
}}
"""
    )


def _read(name: str) -> str:
    return (_LIBRARY / name).read_text(encoding="utf-8")
