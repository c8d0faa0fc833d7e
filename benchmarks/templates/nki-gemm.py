# workload: trainium:gemm-512x1024x1024
# Blocks of a product: what is loaded at once, what stays in SBUF, who copies sums out of PSUM.
import nki
import nki.isa as nisa
import nki.language as nl

ROWS = tune(128, 256, 512)  # rows of out at a time
COLUMNS = tune(512, 128, 256, 1024)  # columns of out at a time
MOVING = tune(512, 128, 256)  # columns of one product
LEFT = tune(128, 256, 512)  # columns of lhsT that one transfer loads
RIGHT = tune(512, 128, 256, 1024)  # columns of rhs that one transfer loads
STORE = tune(512, 128, 256, 1024)  # columns of out that one transfer stores
ROWS_FIRST = tune(0, 1)  # whether the loop over rows is outside
KEEP = tune(0, 1)  # 1: the outer loop's operand is loaded once for all of the inner loop
COPY = tune(0, 1, 2)  # PSUM is copied out by DVE, by ACT, or by both in turn
tune_require(COLUMNS % MOVING == 0 and COLUMNS % RIGHT == 0 and COLUMNS % STORE == 0)
tune_require(ROWS % LEFT == 0)


def load(operand, first, count, wide):
    tiles = []
    for k in nl.affine_range(operand.shape[0] // 128):
        tile = nl.ndarray((128, count), dtype=operand.dtype, buffer=nl.sbuf)
        for c in nl.affine_range(count // wide):
            nisa.dma_copy(
                dst=tile[:, c * wide : (c + 1) * wide],
                src=operand[k * 128 : (k + 1) * 128, first + c * wide : first + (c + 1) * wide],
            )
        tiles.append(tile)
    return tiles


def block(out, left, right, m, n):
    copied = 0
    for i in nl.affine_range(ROWS // 128):
        result = nl.ndarray((128, COLUMNS), dtype=out.dtype, buffer=nl.sbuf)
        for j in nl.affine_range(COLUMNS // MOVING):
            total = nl.ndarray((128, MOVING), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(len(left)):
                nisa.nc_matmul(
                    dst=total,
                    stationary=left[k][:, i * 128 : (i + 1) * 128],
                    moving=right[k][:, j * MOVING : (j + 1) * MOVING],
                )
            to = result[:, j * MOVING : (j + 1) * MOVING]
            if COPY == 1 or (COPY == 2 and copied % 2):
                nisa.activation(dst=to, op=nl.copy, data=total)
            else:
                nisa.tensor_copy(dst=to, src=total)
            copied = copied + 1
        first = m * ROWS + i * 128
        for j in nl.affine_range(COLUMNS // STORE):
            nisa.dma_copy(
                dst=out[
                    first : first + 128, n * COLUMNS + j * STORE : n * COLUMNS + (j + 1) * STORE
                ],
                src=result[:, j * STORE : (j + 1) * STORE],
            )


@nki.jit
def kernel(lhsT, rhs):
    M = lhsT.shape[1]
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    if ROWS_FIRST:
        for m in nl.affine_range(M // ROWS):
            if KEEP:
                left = load(lhsT, m * ROWS, ROWS, LEFT)
            for n in nl.affine_range(N // COLUMNS):
                if not KEEP:
                    left = load(lhsT, m * ROWS, ROWS, LEFT)
                block(out, left, load(rhs, n * COLUMNS, COLUMNS, RIGHT), m, n)
    else:
        for n in nl.affine_range(N // COLUMNS):
            if KEEP:
                right = load(rhs, n * COLUMNS, COLUMNS, RIGHT)
            for m in nl.affine_range(M // ROWS):
                if not KEEP:
                    right = load(rhs, n * COLUMNS, COLUMNS, RIGHT)
                block(out, load(lhsT, m * ROWS, ROWS, LEFT), right, m, n)
    return out
