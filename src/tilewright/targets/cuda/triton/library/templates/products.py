import triton
import triton.language as tl

TM = tune(64, 128, 32, 256)    # rows of a tile
TN = tune(64, 128, 32, 256)    # columns
TK = tune(32, 16, 64)          # terms of each sum that are loaded at a time
GROUP = tune(8, 1)             # rows of tiles that are computed column by column: they share columns in the cache
SPLIT = tune({SPLITS})         # programs that share the terms of a sum
WARPS = tune(4, 8)
STAGES = tune(3, 2, 4)         # tiles that are loaded ahead
tune_require(TM * TN >= 512 * WARPS)
tune_require(TM * TN <= 4096 * WARPS)
tune_require(4 * STAGES * TK * (TM + TN) <= {SHARED})


@triton.jit
def product(A, B, C, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr):
    program = tl.program_id(0)
    wide = tl.cdiv(N, TN)
    group = program // (GROUP * wide)
    high = min(tl.cdiv(M, TM) - group * GROUP, GROUP)
    row = group * GROUP + program % (GROUP * wide) % high
    column = program % (GROUP * wide) // high
    rows = row * TM + tl.arange(0, TM)[:, None]
    columns = column * TN + tl.arange(0, TN)[None, :]
    own = tl.cdiv(tl.cdiv(K, TK), SPLIT) * TK
    begin = tl.program_id(1) * own
    end = min(begin + own, K)
    across = begin + tl.arange(0, TK)[None, :]
    down = begin + tl.arange(0, TK)[:, None]
    left = A + rows.to(tl.int64) * K + across
    right = B + down.to(tl.int64) * N + columns
    total = tl.zeros((TM, TN), dtype=tl.float32)
    for first in range(begin, end, TK):
        more = end - first
        a = tl.load(left, mask=(rows < M) & (across - begin < more), other=0.0)
        b = tl.load(right, mask=(down - begin < more) & (columns < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="{PRECISION}")
        left += TK
        right += TK * N
    result = C + rows.to(tl.int64) * N + columns
    inside = (rows < M) & (columns < N)
    if SPLIT == 1:
        tl.store(result, total, mask=inside)
    else:
        tl.atomic_add(result, total, mask=inside)


def kernel(PARAMETERS):
    rows = {ROWS}
    if SPLIT > 1:
        C.zero_()
    grid = (triton.cdiv(rows, TM) * triton.cdiv(N, TN), SPLIT)
    product[grid](A, {RIGHT}, C, rows, N, K, TM=TM, TN=TN, TK=TK, GROUP=GROUP, SPLIT=SPLIT, num_warps=WARPS, num_stages=STAGES)
