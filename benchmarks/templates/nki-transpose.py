# workload: trainium:transpose-4x512x512
# Blocks that PE turns: neighbouring rows on a partition, widths of transfers, who copies them out.
import nki
import nki.isa as nisa
import nki.language as nl

ROWS = tune(1, 2, 4)  # neighbouring rows on a partition
COLUMNS = tune(1, 2, 4)  # neighbouring columns on a partition of the result
RUN = tune(0, 1)  # 0: a partition's rows are neighbours in HBM; 1: they are 128 rows apart
OUT_RUN = tune(0, 1)  # the same of the result
GROUP = tune(1, 2, 4)  # turned blocks in one tile of PSUM
LOADS = tune(1, 2, 4)  # transfers that load a tile
STORES = tune(1, 2, 4)  # transfers that store one
COPY = tune(0, 1, 2)  # PSUM is copied out by DVE, by ACT, or by both in turn
COLUMNS_FIRST = tune(0, 1)
tune_require(GROUP <= ROWS and LOADS <= ROWS and STORES <= COLUMNS)


def turn(x, out, i, j, k):
    planes, J, K = x.shape
    wide = 128 * COLUMNS
    high = 128 * ROWS
    tile = nl.ndarray((128, ROWS, wide), dtype=x.dtype, buffer=nl.sbuf)
    count = ROWS // LOADS
    for s in nl.affine_range(LOADS):
        if RUN:
            steps = [[K, 128], [128 * K, count], [1, wide]]
            first = s * count * 128 * K
        else:
            steps = [[ROWS * K, 128], [K, count], [1, wide]]
            first = s * count * K
        nisa.dma_copy(
            dst=tile[:, s * count : (s + 1) * count, :],
            src=x.ap(pattern=steps, offset=(i * J + j * high) * K + k * wide + first),
        )
    result = nl.ndarray((128, COLUMNS, high), dtype=x.dtype, buffer=nl.sbuf)
    copied = 0
    for c in nl.affine_range(COLUMNS):
        for g in nl.affine_range(ROWS // GROUP):
            turned = nl.ndarray((128, 128 * GROUP), dtype=x.dtype, buffer=nl.psum)
            for r in nl.affine_range(GROUP):
                row = g * GROUP + r
                if OUT_RUN:
                    block = tile[:, row, c * 128 : (c + 1) * 128]
                else:
                    block = tile[:, row, c::COLUMNS]
                nisa.nc_transpose(dst=turned[:, r * 128 : (r + 1) * 128], data=block)
            for r in nl.affine_range(GROUP):
                row = g * GROUP + r
                if RUN:
                    to = result[:, c, row * 128 : (row + 1) * 128]
                else:
                    to = result[:, c, row::ROWS]
                if COPY == 1 or (COPY == 2 and copied % 2):
                    nisa.activation(dst=to, op=nl.copy, data=turned[:, r * 128 : (r + 1) * 128])
                else:
                    nisa.tensor_copy(dst=to, src=turned[:, r * 128 : (r + 1) * 128])
                copied = copied + 1
    count = COLUMNS // STORES
    for s in nl.affine_range(STORES):
        if OUT_RUN:
            steps = [[J, 128], [128 * J, count], [1, high]]
            first = s * count * 128 * J
        else:
            steps = [[COLUMNS * J, 128], [J, count], [1, high]]
            first = s * count * J
        nisa.dma_copy(
            dst=out.ap(pattern=steps, offset=(i * K + k * wide) * J + j * high + first),
            src=result[:, s * count : (s + 1) * count, :],
        )


@nki.jit
def kernel(x):
    planes, J, K = x.shape
    out = nl.ndarray((planes, K, J), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(planes):
        if COLUMNS_FIRST:
            for k in nl.affine_range(K // (128 * COLUMNS)):
                for j in nl.affine_range(J // (128 * ROWS)):
                    turn(x, out, i, j, k)
        else:
            for j in nl.affine_range(J // (128 * ROWS)):
                for k in nl.affine_range(K // (128 * COLUMNS)):
                    turn(x, out, i, j, k)
    return out
