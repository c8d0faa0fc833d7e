import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(img, filt):
    N, C, _, W = img.shape
    taps = filt.shape[3]
    before = (taps - 1) // 2
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(N):
        for c in nl.affine_range(C // 128):
            first, last = c * 128, (c + 1) * 128
            image = nl.ndarray((128, W + taps - 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=image, value=0.0)
            nisa.dma_copy(dst=image[:, before : before + W], src=img[n, first:last, 0, 0:W])
            weights = nl.ndarray((128, taps), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=weights, src=filt[first:last, 0, 0, 0:taps])
            result = nl.ndarray((128, W), dtype=nl.float32, buffer=nl.sbuf)
            for w in nl.affine_range(W):
                products = nl.ndarray((128, taps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor(
                    dst=products, data1=image[:, w : w + taps], data2=weights, op=nl.multiply
                )
                nisa.tensor_reduce(dst=result[:, w : w + 1], op=nl.add, data=products, axis=1)
            nisa.dma_copy(dst=out[n, first:last, 0, 0:W], src=result)
    return out
