import triton
import triton.language as tl

WIDE = tune(1024, 2048, 4096, 512, 8192)  # neighbouring elements of a program
WARPS = tune(4, 8, 2)
tune_require(WIDE >= 128 * WARPS)
tune_require(WIDE <= 2048 * WARPS)


# Y = silu(X * scale + bias) * G
@triton.jit
def chain(X, scale, bias, G, Y, C, count, WIDE: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    inside = i < count
    x = tl.load(X + i, mask=inside, other=0.0)
    x = x * tl.load(scale + i % C, mask=inside, other=0.0) + tl.load(bias + i % C, mask=inside, other=0.0)
    gate = tl.load(G + i, mask=inside, other=0.0)
    tl.store(Y + i, x / (1.0 + tl.exp(-x)) * gate, mask=inside)


def kernel(PARAMETERS):
    count = R * C
    chain[(triton.cdiv(count, WIDE),)](X, scale, bias, G, Y, C, count, WIDE=WIDE, num_warps=WARPS)
