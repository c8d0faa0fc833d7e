import triton
import triton.language as tl


# Y = silu(X * scale + bias) * G, one kernel for each step, the values between them in memory.
@triton.jit
def scaled(X, scale, bias, Y, C, count, WIDE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    inside = i < count
    x = tl.load(X + i, mask=inside)
    x = x * tl.load(scale + i % C, mask=inside) + tl.load(bias + i % C, mask=inside)
    tl.store(Y + i, x, mask=inside)


@triton.jit
def silu(Y, count, WIDE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    y = tl.load(Y + i, mask=i < count)
    tl.store(Y + i, y / (1.0 + tl.exp(-y)), mask=i < count)


@triton.jit
def gated(G, Y, count, WIDE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    y = tl.load(Y + i, mask=i < count)
    tl.store(Y + i, y * tl.load(G + i, mask=i < count), mask=i < count)


def kernel(PARAMETERS):
    count = R * C
    grid = (triton.cdiv(count, 4096),)
    scaled[grid](X, scale, bias, Y, C, count, WIDE=4096, num_warps=8)
    silu[grid](Y, count, WIDE=4096, num_warps=8)
    gated[grid](G, Y, count, WIDE=4096, num_warps=8)
