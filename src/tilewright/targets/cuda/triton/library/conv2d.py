import triton
import triton.language as tl


# A program computes outputs at WIDE places of one image by TALL filters.
@triton.jit
def convolution(X, F, Y, C, H, W, K, P, Q, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
                PADDING: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr):
    place = tl.program_id(0) * WIDE + tl.arange(0, WIDE)[None, :]
    k = tl.program_id(1) * TALL + tl.arange(0, TALL)[:, None]
    n = tl.program_id(2).to(tl.int64)
    inside = (k < K) & (place < P * Q)
    top = place // Q * STRIDE - PADDING
    left = place % Q * STRIDE - PADDING
    total = tl.zeros((TALL, WIDE), dtype=tl.float32)
    for c in range(C):
        for r in range(R):
            for s in range(S):
                y, x = top + r, left + s
                within = (place < P * Q) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
                image = tl.load(X + ((n * C + c) * H + y) * W + x, mask=within, other=0.0)
                total += image * tl.load(F + ((k * C + c) * R + r) * S + s, mask=k < K, other=0.0)
    tl.store(Y + (n * K + k) * P * Q + place, total, mask=inside)


def kernel(PARAMETERS):
    P = (H + 2 * {P} - {R}) // {T} + 1
    Q = (W + 2 * {P} - {S}) // {T} + 1
    grid = (triton.cdiv(P * Q, 256), triton.cdiv(K, 64), N)
    convolution[grid](X, F, Y, C, H, W, K, P, Q, R={R}, S={S}, STRIDE={T}, PADDING={P}, TALL=64, WIDE=256, num_warps=8)
