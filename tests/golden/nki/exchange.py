import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(lhsT, rhs):
    out = nl.ndarray((256, 1024), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    for n in nl.affine_range(2):
        for m in nl.affine_range(2):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(2):
                left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhsT[k * 128 : k * 128 + 128, m * 128 : m * 128 + 128])
                right = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.dma_copy(dst=right, src=rhs[k * 128 : k * 128 + 128, n * 512 : n * 512 + 512])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            result = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[m * 128 : m * 128 + 128, n * 512 : n * 512 + 512], src=result)
    return out
