import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x_in, cos, sin):
    D, L = x_in.shape
    half = D // 2
    out = nl.ndarray((D, L), dtype=x_in.dtype, buffer=nl.shared_hbm)
    width = min(L, 4096)
    for c in nl.affine_range((L + width - 1) // width):
        size = min(width, L - c * width)
        first, last = c * width, c * width + size
        even = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=even, src=x_in[0:half, first:last])
        odd = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=odd, src=x_in[half:D, first:last])
        cosine = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=cosine, src=cos[0:half, first:last])
        sine = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=sine, src=sin[0:half, first:last])
        even_cos = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=even_cos, data1=even, data2=cosine, op=nl.multiply)
        odd_sin = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=odd_sin, data1=odd, data2=sine, op=nl.multiply)
        even_sin = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=even_sin, data1=even, data2=sine, op=nl.multiply)
        odd_cos = nl.ndarray((half, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=odd_cos, data1=odd, data2=cosine, op=nl.multiply)
        nisa.tensor_tensor(dst=even_cos, data1=even_cos, data2=odd_sin, op=nl.subtract)
        nisa.tensor_tensor(dst=odd_cos, data1=odd_cos, data2=even_sin, op=nl.add)
        nisa.dma_copy(dst=out[0:half, first:last], src=even_cos)
        nisa.dma_copy(dst=out[half:D, first:last], src=odd_cos)
    return out
