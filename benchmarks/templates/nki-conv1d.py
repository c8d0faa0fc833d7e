# workload: trainium:conv1d-2x256x1024-k5
# A depthwise convolution: pieces of rows, which engine does which tap, where sums lie.
import nki
import nki.isa as nisa
import nki.language as nl

WIDTH = tune(512, 128, 256, 1024)  # outputs of one instruction
LOAD = tune(1024, 128, 256, 512)  # elements of one transfer into SBUF
STORE = tune(1024, 128, 256, 512)  # elements of one transfer out of it
ON_ACT = tune(0, 1, 2, 3, 4, 5)  # taps whose products ACT makes
TWO_STEPS = tune(0, 1)  # 1: DVE's taps are a product and a sum apart
PSUM = tune(0, 1)  # 1: sums alternate with PSUM
TAPS_OUTSIDE = tune(0, 1)  # 1: all pieces of a row take a tap before the next
FILTERS_FIRST = tune(0, 1)  # 1: the weights of all channels are loaded at the beginning
tune_require(STORE % WIDTH == 0)
tune_require(PSUM == 0 or WIDTH <= 512)


def place(in_psum):
    if in_psum:
        return nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.psum)
    return nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)


def tap(t, image, weights, first, total, last):
    window = image[:, first + t : first + t + WIDTH]
    weight = weights[:, t : t + 1]
    more = last if last is not None else place(PSUM and t % 2)
    if total is None:
        if ON_ACT:
            nisa.activation(dst=more, op=nl.copy, data=window, scale=weight)
        else:
            nisa.tensor_scalar(dst=more, data=window, op0=nl.multiply, operand0=weight)
    elif t < ON_ACT:
        product = place(PSUM and t % 2)
        nisa.activation(dst=product, op=nl.copy, data=window, scale=weight)
        nisa.tensor_tensor(dst=more, data1=product, data2=total, op=nl.add)
    elif TWO_STEPS:
        product = place(PSUM and t % 2)
        nisa.tensor_scalar(dst=product, data=window, op0=nl.multiply, operand0=weight)
        nisa.tensor_tensor(dst=more, data1=product, data2=total, op=nl.add)
    else:
        nisa.scalar_tensor_tensor(
            dst=more, data=window, op0=nl.multiply, operand0=weight, op1=nl.add, operand1=total
        )
    return more


@nki.jit
def kernel(img, filt):
    N, C, _, W = img.shape
    taps = filt.shape[3]
    before = (taps - 1) // 2
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    kept = []
    if FILTERS_FIRST:
        for c in nl.affine_range(C // 128):
            weights = nl.ndarray((128, taps), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=weights, src=filt[c * 128 : (c + 1) * 128, 0, 0, 0:taps])
            kept.append(weights)
    for c in nl.affine_range(C // 128):
        top = c * 128
        if FILTERS_FIRST:
            weights = kept[c]
        else:
            weights = nl.ndarray((128, taps), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=weights, src=filt[top : top + 128, 0, 0, 0:taps])
        for n in nl.affine_range(N):
            image = nl.ndarray((128, W + taps - 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=image[:, 0:before], value=0.0)
            nisa.memset(dst=image[:, before + W : W + taps - 1], value=0.0)
            for s in nl.affine_range(W // LOAD):
                nisa.dma_copy(
                    dst=image[:, before + s * LOAD : before + (s + 1) * LOAD],
                    src=img[n, top : top + 128, 0, s * LOAD : (s + 1) * LOAD],
                )
            result = nl.ndarray((128, W), dtype=nl.float32, buffer=nl.sbuf)
            pieces = W // WIDTH
            if TAPS_OUTSIDE:
                totals = [None] * pieces
                for t in range(taps):
                    for p in range(pieces):
                        last = result[:, p * WIDTH : (p + 1) * WIDTH] if t == taps - 1 else None
                        totals[p] = tap(t, image, weights, p * WIDTH, totals[p], last)
            else:
                for p in range(pieces):
                    total = None
                    for t in range(taps):
                        last = result[:, p * WIDTH : (p + 1) * WIDTH] if t == taps - 1 else None
                        total = tap(t, image, weights, p * WIDTH, total, last)
            for s in nl.affine_range(W // STORE):
                nisa.dma_copy(
                    dst=out[n, top : top + 128, 0, s * STORE : (s + 1) * STORE],
                    src=result[:, s * STORE : (s + 1) * STORE],
                )
    return out
