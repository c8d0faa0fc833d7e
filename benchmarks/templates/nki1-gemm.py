# workload: trainium:gemm-512x1024x1024
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

TN = tune(512, 256, 128)
MB = tune(1, 2, 4)
NB = tune(1, 2, 4, 8)
KB = tune(1, 2, 4, 8)
WIDE_L = tune(128, 256, 512)
WIDE_R = tune(128, 256, 512, 1024)
EVICT = tune(0, 1, 2)
LEFT_FIRST = tune(0, 1)
tune_require(WIDE_L <= MB * 128 and WIDE_R <= NB * TN and NB * TN <= 1024)
tune_require(NB * TN % WIDE_R == 0 and MB * 128 % WIDE_L == 0)


def fetch(to, k, src, c0, width, step):
    for c in nl.affine_range(width // step):
        to[:, k, c * step : (c + 1) * step] = nl.load(
            src[k * 128 : (k + 1) * 128, c0 + c * step : c0 + (c + 1) * step]
        )


@nki.jit
def kernel(lhsT, rhs):
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    bm, bn = 128 * MB, TN * NB
    for m in nl.affine_range(M // bm):
        depth = K // 128
        lefts = nl.ndarray((128, depth, bm), dtype=lhsT.dtype, buffer=nl.sbuf)
        if LEFT_FIRST:
            for k in range(depth):
                fetch(lefts, k, lhsT, m * bm, bm, WIDE_L)
        for n in nl.affine_range(N // bn):
            sums = nl.zeros((128, MB, NB, TN), dtype=nl.float32, buffer=nl.sbuf)
            rights = nl.ndarray((128, depth, bn), dtype=rhs.dtype, buffer=nl.sbuf)
            for kb in range(depth // KB):
                for k in range(kb * KB, (kb + 1) * KB):
                    if not LEFT_FIRST:
                        fetch(lefts, k, lhsT, m * bm, bm, WIDE_L)
                    fetch(rights, k, rhs, n * bn, bn, WIDE_R)
                for i in range(MB):
                    for j in range(NB):
                        part = nl.zeros((128, TN), dtype=nl.float32, buffer=nl.psum)
                        for k in range(KB):
                            part += nisa.nc_matmul(
                                lefts[:, kb * KB + k, i * 128 : (i + 1) * 128],
                                rights[:, kb * KB + k, j * TN : (j + 1) * TN],
                            )
                        sums[:, i, j, :] = nl.add(sums[:, i, j, :], part)
            for i in range(MB):
                row = (m * MB + i) * 128
                if EVICT == 0:
                    for j in range(NB):
                        nl.store(out[row : row + 128, n * bn + j * TN : n * bn + (j + 1) * TN], value=sums[:, i, j, :])
                elif EVICT == 1:
                    whole = nl.ndarray((128, bn), dtype=out.dtype, buffer=nl.sbuf)
                    for j in range(NB):
                        whole[:, j * TN : (j + 1) * TN] = nl.copy(sums[:, i, j, :], dtype=out.dtype)
                    nl.store(out[row : row + 128, n * bn : (n + 1) * bn], value=whole)
                else:
                    for j in range(NB):
                        half = nl.copy(sums[:, i, j, :], dtype=out.dtype)
                        nl.store(out[row : row + 128, n * bn + j * TN : n * bn + (j + 1) * TN], value=half)
    return out
