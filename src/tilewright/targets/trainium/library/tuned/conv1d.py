import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(img, filt):
    N, C, _, W = img.shape
    taps = filt.shape[3]
    before = (taps - 1) // 2
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(C // 128):
        first, last = c * 128, (c + 1) * 128
        weights = nl.ndarray((128, taps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=filt[first:last, 0, 0, 0:taps])
        for n in nl.affine_range(N):
            image = nl.ndarray((128, W + taps - 1), dtype=nl.float32, buffer=nl.sbuf)
            if before:
                nisa.memset(dst=image[:, 0:before], value=0.0)
            if taps - 1 - before:
                nisa.memset(dst=image[:, before + W : W + taps - 1], value=0.0)
            nisa.dma_copy(dst=image[:, before : before + W], src=img[n, first:last, 0, 0:W])
            total = nl.ndarray((128, W), dtype=nl.float32, buffer=nl.sbuf)
            # The first tap runs on ACT, the others on DVE.
            nisa.activation(
                dst=total, op=nl.copy, data=image[:, 0:W], scale=weights[:, 0:1]
            )
            for t in range(1, taps):
                more = nl.ndarray((128, W), dtype=nl.float32, buffer=nl.sbuf)
                nisa.scalar_tensor_tensor(
                    dst=more,
                    data=image[:, t : t + W],
                    op0=nl.multiply,
                    operand0=weights[:, t : t + 1],
                    op1=nl.add,
                    operand1=total,
                )
                total = more
            nisa.dma_copy(dst=out[n, first:last, 0, 0:W], src=total)
    return out
