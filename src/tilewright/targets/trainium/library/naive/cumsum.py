import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    R, C = x.shape
    width = min(C, 2048)
    out = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(R // 128):
        carry = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=carry, value=0.0)
        for c in nl.sequential_range((C + width - 1) // width):
            size = min(width, C - c * width)
            rows = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=rows, src=x[r * 128 : (r + 1) * 128, c * width : c * width + size])
            ones = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=ones, value=1.0)
            sums = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=sums, data0=ones, data1=rows, initial=carry, op0=nl.multiply, op1=nl.add
            )
            nisa.tensor_copy(dst=carry, src=sums[:, size - 1 : size])
            nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, c * width : c * width + size], src=sums)
    return out
