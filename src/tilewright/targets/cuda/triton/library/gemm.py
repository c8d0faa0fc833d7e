import triton
import triton.language as tl


@triton.jit
def product(A, B, C, M, N, K, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for first in range(0, K, TILE):
        across = first + tl.arange(0, TILE)[None, :]
        down = first + tl.arange(0, TILE)[:, None]
        left = tl.load(A + rows.to(tl.int64) * K + across, mask=(rows < M) & (across < K), other=0.0)
        right = tl.load(B + down.to(tl.int64) * N + columns, mask=(down < K) & (columns < N), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(C + rows.to(tl.int64) * N + columns, total, mask=(rows < M) & (columns < N))


def kernel(PARAMETERS):
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    product[grid](A, B, C, M, N, K, TILE=64)
