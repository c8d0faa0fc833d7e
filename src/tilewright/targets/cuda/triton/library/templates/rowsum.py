import triton
import triton.language as tl

WIDE = tune(4096, 1024, 2048, 8192)  # elements of a row at a time
ROWS = tune(1, 2, 4, 8)              # rows of a program
WARPS = tune(4, 8, 16, 2)
tune_require(ROWS * WIDE <= 16384)
tune_require(ROWS * WIDE <= 4096 * WARPS)
tune_require(ROWS * WIDE >= 128 * WARPS)


@triton.jit
def rowsum(X, Y, R, C, WIDE: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDE)[None, :]
    start = row.to(tl.int64) * C
    total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    for first in range(0, C, WIDE):
        total += tl.load(X + start + first + column, mask=(row < R) & (first + column < C), other=0.0)
    tl.store(Y + row, tl.sum(total, axis=1)[:, None], mask=row < R)


def kernel(PARAMETERS):
    wide = min(WIDE, triton.next_power_of_2(C))
    rowsum[(triton.cdiv(R, ROWS),)](X, Y, R, C, WIDE=wide, ROWS=ROWS, num_warps=WARPS)
