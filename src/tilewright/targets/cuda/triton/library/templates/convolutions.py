import triton
import triton.language as tl

TM = tune(64, 32, 128)         # filters of a tile
TN = tune(128, 64, 256, 32)    # places of the output, of all images
TK = tune(32, 16, 64)          # elements of a window that are loaded at a time
WARPS = tune(4, 8)
STAGES = tune(3, 2, 4)         # tiles that are loaded ahead
tune_require(TM * TN >= 512 * WARPS)
tune_require(TM * TN <= 4096 * WARPS)
tune_require(4 * STAGES * TK * (TM + TN) <= {SHARED})


# The matrix of filters times the matrix whose columns are the windows of all places, which is never stored.
@triton.jit
def convolution(X, F, bias, Y, images, C, H, W, K, P, Q, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
                PADDING: tl.constexpr, BIAS: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    k = tl.program_id(1) * TM + tl.arange(0, TM)[:, None]
    place = tl.program_id(0) * TN + tl.arange(0, TN)[None, :]
    there = place < images * P * Q
    n = place // (P * Q)
    at = place % (P * Q)
    top = at // Q * STRIDE - PADDING
    left = at % Q * STRIDE - PADDING
    image = X + n.to(tl.int64) * C * H * W
    terms = C * R * S
    total = tl.zeros((TM, TN), dtype=tl.float32)
    for first in range(0, terms, TK):
        across = first + tl.arange(0, TK)[None, :]
        down = first + tl.arange(0, TK)[:, None]
        y = top + down // S % R
        x = left + down % S
        within = there & (down < terms) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
        weights = tl.load(F + k * terms + across, mask=(k < K) & (across < terms), other=0.0)
        window = tl.load(image + (down // (R * S) * H + y) * W + x, mask=within, other=0.0)
        total = tl.dot(weights, window, total, input_precision="{PRECISION}")
    if BIAS:
        total += tl.load(bias + k, mask=k < K, other=0.0)
    tl.store(Y + (n.to(tl.int64) * K + k) * P * Q + at, total, mask=(k < K) & there)


def kernel(PARAMETERS):
    P = (H + 2 * {P} - {R}) // {T} + 1
    Q = (W + 2 * {P} - {S}) // {T} + 1
    grid = (triton.cdiv(N * P * Q, TN), triton.cdiv(K, TM))
    convolution[grid](X, F, {ADDED}, Y, N, C, H, W, K, P, Q, R={R}, S={S}, STRIDE={T}, PADDING={P}, BIAS={BIAS},
                      TM=TM, TN=TN, TK=TK, num_warps=WARPS, num_stages=STAGES)
