import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(img, filt):
    out = nl.ndarray((2, 128, 1, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    for n in nl.affine_range(2):
        image = nl.ndarray((128, 34), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=image, value=0.0)
        nisa.dma_copy(dst=image[0:128, 1 : 33], src=img[n, 0:128, 0, 0:32])
        weights = nl.ndarray((128, 3), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=filt[0:128, 0, 0, 0:3])
        partial = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=partial,
            data=image[0:128, 0 : 32],
            op0=nl.multiply,
            operand0=weights[0:128, 0 : 1],
        )
        partial_2 = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=partial_2,
            data=image[0:128, 1 : 33],
            op0=nl.multiply,
            operand0=weights[0:128, 1 : 2],
            op1=nl.add,
            operand1=partial,
        )
        result = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=result.ap(pattern=[[32, 128], [1, 32], [1, 1]]),
            data=image[0:128, 2 : 34],
            op0=nl.multiply,
            operand0=weights[0:128, 2 : 3],
            op1=nl.add,
            operand1=partial_2,
        )
        nisa.dma_copy(dst=out[n, 0:128, 0, 0:32], src=result)
    return out
