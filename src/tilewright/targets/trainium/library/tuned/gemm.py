import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    steps = K // 128
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    # A block of rhs over all of K stays in SBUF; the four products of a group use half of PSUM, so
    # that the next group begins while their sums are copied out.
    columns = 1024 if N % 1024 == 0 and K <= 8192 else 512
    rows = 256 if M % 256 == 0 else 128
    for n in nl.affine_range(N // columns):
        block = []
        for k in nl.affine_range(steps):
            right = nl.ndarray((128, columns), dtype=rhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=right, src=rhs[k * 128 : (k + 1) * 128, n * columns : (n + 1) * columns]
            )
            block.append(right)
        for m in nl.affine_range(M // rows):
            totals = []
            for i in nl.affine_range((rows // 128) * (columns // 512)):
                total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                totals.append(total)
            for k in nl.affine_range(steps):
                left = nl.ndarray((128, rows), dtype=lhsT.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=left, src=lhsT[k * 128 : (k + 1) * 128, m * rows : (m + 1) * rows]
                )
                for i in nl.affine_range(rows // 128):
                    for j in nl.affine_range(columns // 512):
                        nisa.nc_matmul(
                            dst=totals[i * (columns // 512) + j],
                            stationary=left[:, i * 128 : (i + 1) * 128],
                            moving=block[k][:, j * 512 : (j + 1) * 512],
                        )
            for i in nl.affine_range(rows // 128):
                result = nl.ndarray((128, columns), dtype=out.dtype, buffer=nl.sbuf)
                for j in nl.affine_range(columns // 512):
                    nisa.tensor_copy(
                        dst=result[:, j * 512 : (j + 1) * 512],
                        src=totals[i * (columns // 512) + j],
                    )
                first = m * rows + i * 128
                nisa.dma_copy(
                    dst=out[first : first + 128, n * columns : (n + 1) * columns], src=result
                )
    return out
