import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    R, C = x.shape
    width = min(C, 1024)
    out = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    ones = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for r in nl.affine_range(R // 128):
        before = None
        for c in nl.sequential_range((C + width - 1) // width):
            size = min(width, C - c * width)
            rows = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=rows, src=x[r * 128 : (r + 1) * 128, c * width : c * width + size])
            sums = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=sums,
                data0=ones[:, 0:size],
                data1=rows,
                initial=0.0 if c == 0 else before[:, width - 1 : width],
                op0=nl.multiply,
                op1=nl.add,
            )
            before = sums
            nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, c * width : c * width + size], src=sums)
    return out
