# workload: trainium:rope-128x2048
# A rotary embedding: widths of transfers and instructions, folds of the sequence, tiles in PSUM.
import nki
import nki.isa as nisa
import nki.language as nl

WIDTH = tune(256, 64, 128, 512, 1024)  # steps at a time
LOAD = tune(256, 64, 128, 512, 1024)  # steps of one transfer into SBUF
STORE = tune(256, 64, 128, 512, 1024)  # steps of one transfer out of it
FOLDS = tune(1, 2)  # parts of the sequence on partitions of their own
FIRST = tune(0, 1)  # 1: the first product of a difference lies in PSUM
SECOND = tune(0, 1)
THIRD = tune(0, 1)
FOURTH = tune(0, 1)
COSINES = tune(0, 1)  # 1: ACT copies the cosines into PSUM first
SINES = tune(0, 1)  # 1: ACT copies the sines into PSUM first
tune_require(WIDTH % LOAD == 0 and WIDTH % STORE == 0)
tune_require(FIRST + SECOND + THIRD + FOURTH + COSINES + SINES == 0 or WIDTH <= 512)
tune_require(FIRST + SECOND < 2 and THIRD + FOURTH < 2)


def place(P, in_psum):
    if in_psum:
        return nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.psum)
    return nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)


def load(tile, source, top, half, length, c):
    for f in nl.affine_range(FOLDS):
        for s in nl.affine_range(WIDTH // LOAD):
            first = f * length + c * WIDTH + s * LOAD
            nisa.dma_copy(
                dst=tile[f * half : (f + 1) * half, s * LOAD : (s + 1) * LOAD],
                src=source[top : top + half, first : first + LOAD],
            )


def store(out, tile, top, half, length, c):
    for f in nl.affine_range(FOLDS):
        for s in nl.affine_range(WIDTH // STORE):
            first = f * length + c * WIDTH + s * STORE
            nisa.dma_copy(
                dst=out[top : top + half, first : first + STORE],
                src=tile[f * half : (f + 1) * half, s * STORE : (s + 1) * STORE],
            )


@nki.jit
def kernel(x_in, cos, sin):
    D, L = x_in.shape
    half = D // 2
    length = L // FOLDS
    P = half * FOLDS
    out = nl.ndarray((D, L), dtype=x_in.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(length // WIDTH):
        even = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        odd = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        cosine = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        sine = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        load(even, x_in, 0, half, length, c)
        load(cosine, cos, 0, half, length, c)
        load(odd, x_in, half, half, length, c)
        load(sine, sin, 0, half, length, c)
        if COSINES:
            near = place(P, 1)
            nisa.activation(dst=near, op=nl.copy, data=cosine)
            cosine = near
        if SINES:
            close = place(P, 1)
            nisa.activation(dst=close, op=nl.copy, data=sine)
            sine = close
        even_cos = place(P, FIRST)
        nisa.tensor_tensor(dst=even_cos, data1=even, data2=cosine, op=nl.multiply)
        odd_sin = place(P, SECOND)
        nisa.tensor_tensor(dst=odd_sin, data1=odd, data2=sine, op=nl.multiply)
        upper = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=upper, data1=even_cos, data2=odd_sin, op=nl.subtract)
        store(out, upper, 0, half, length, c)
        odd_cos = place(P, THIRD)
        nisa.tensor_tensor(dst=odd_cos, data1=odd, data2=cosine, op=nl.multiply)
        even_sin = place(P, FOURTH)
        nisa.tensor_tensor(dst=even_sin, data1=even, data2=sine, op=nl.multiply)
        lower = nl.ndarray((P, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=lower, data1=odd_cos, data2=even_sin, op=nl.add)
        store(out, lower, half, half, length, c)
    return out
