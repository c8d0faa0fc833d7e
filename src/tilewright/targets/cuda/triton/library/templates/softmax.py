import triton
import triton.language as tl

WIDE = tune(4096, 1024, 2048, 8192, 16384)  # elements of a row at a time
ROWS = tune(1, 2, 4, 8)                     # rows of a program
WARPS = tune(4, 8, 16, 2)
tune_require(ROWS * WIDE <= 16384)
tune_require(ROWS * WIDE <= 4096 * WARPS)
tune_require(ROWS * WIDE >= 128 * WARPS)


@triton.jit
def softmax(X, Y, R, C, WIDE: tl.constexpr, ROWS: tl.constexpr, ONCE: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDE)[None, :]
    start = row.to(tl.int64) * C
    if ONCE:
        inside = (row < R) & (column < C)
        x = tl.load(X + start + column, mask=inside, other=float("-inf"))
        # Rows beyond the last have no largest element, and are not stored.
        most = tl.where(row < R, tl.max(x, axis=1)[:, None], 0.0)
        x = tl.exp(x - most)
        tl.store(Y + start + column, x / tl.sum(x, axis=1)[:, None], mask=inside)
    else:
        most = tl.full((ROWS, 1), float("-inf"), dtype=tl.float32)
        total = tl.zeros((ROWS, 1), dtype=tl.float32)
        for first in range(0, C, WIDE):
            inside = (row < R) & (first + column < C)
            x = tl.load(X + start + first + column, mask=inside, other=float("-inf"))
            larger = tl.where(row < R, tl.maximum(most, tl.max(x, axis=1)[:, None]), 0.0)
            total = total * tl.exp(most - larger) + tl.sum(tl.exp(x - larger), axis=1)[:, None]
            most = larger
        for first in range(0, C, WIDE):
            inside = (row < R) & (first + column < C)
            x = tl.load(X + start + first + column, mask=inside, other=0.0)
            tl.store(Y + start + first + column, tl.exp(x - most) / total, mask=inside)


def kernel(PARAMETERS):
    wide = min(WIDE, triton.next_power_of_2(C))
    softmax[(triton.cdiv(R, ROWS),)](X, Y, R, C, WIDE=wide, ROWS=ROWS, ONCE=C <= wide, num_warps=WARPS)
