"""A straightforward gated unit for AWS Trainium 2: 128 rows at a time, in steps of 128 columns."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, gate):
    """out = x * sigmoid(gate)."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(rows // 128):
        for c in nl.affine_range(columns // 128):
            here = x[r * 128 : (r + 1) * 128, c * 128 : (c + 1) * 128]
            values = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=values, src=here)
            gates = nl.ndarray((128, 128), dtype=gate.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=gates, src=gate[r * 128 : (r + 1) * 128, c * 128 : (c + 1) * 128])
            opened = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=opened, op=nl.sigmoid, data=gates)
            product = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=product, data1=values, data2=opened, op=nl.multiply)
            nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, c * 128 : (c + 1) * 128], src=product)
    return out
