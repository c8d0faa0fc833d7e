import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x_in, cos, sin):
    D, L = x_in.shape
    half = D // 2
    out = nl.ndarray((D, L), dtype=x_in.dtype, buffer=nl.shared_hbm)
    # The two halves of the sequence stand on partitions of their own, so that all lanes work.
    folds = 2 if half in (32, 64) and L % 2 == 0 else 1
    length = L // folds
    width = max(w for w in range(1, min(length, 512) + 1) if length % w == 0)
    P = half * folds
    for c in nl.affine_range(length // width):
        even = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        odd = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        cosine = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        sine = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        for f in nl.affine_range(folds):
            low, first = f * half, f * length + c * width
            lanes, steps = slice(low, low + half), slice(first, first + width)
            nisa.dma_copy(dst=even[lanes, :], src=x_in[0:half, steps])
            nisa.dma_copy(dst=cosine[lanes, :], src=cos[0:half, steps])
            nisa.dma_copy(dst=odd[lanes, :], src=x_in[half:D, steps])
            nisa.dma_copy(dst=sine[lanes, :], src=sin[0:half, steps])
        # One operand in PSUM halves the cost of the sums.
        even_cos = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_tensor(dst=even_cos, data1=even, data2=cosine, op=nl.multiply)
        odd_sin = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=odd_sin, data1=odd, data2=sine, op=nl.multiply)
        upper = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=upper, data1=even_cos, data2=odd_sin, op=nl.subtract)
        odd_cos = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_tensor(dst=odd_cos, data1=odd, data2=cosine, op=nl.multiply)
        even_sin = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=even_sin, data1=even, data2=sine, op=nl.multiply)
        lower = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=lower, data1=odd_cos, data2=even_sin, op=nl.add)
        for f in nl.affine_range(folds):
            low, first = f * half, f * length + c * width
            lanes, steps = slice(low, low + half), slice(first, first + width)
            nisa.dma_copy(dst=out[0:half, steps], src=upper[lanes, :])
            nisa.dma_copy(dst=out[half:D, steps], src=lower[lanes, :])
    return out
