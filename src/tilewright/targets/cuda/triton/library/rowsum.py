import triton
import triton.language as tl


# One program for each row.
@triton.jit
def row_sums(X, Y, C, WIDE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((WIDE,), dtype=tl.float32)
    for first in range(0, C, WIDE):
        column = first + tl.arange(0, WIDE)
        total += tl.load(X + row.to(tl.int64) * C + column, mask=column < C, other=0.0)
    tl.store(Y + row, tl.sum(total, axis=0))


def kernel(PARAMETERS):
    row_sums[(R,)](X, Y, C, WIDE=256)
