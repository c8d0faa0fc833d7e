import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, g):
    R, C = a.shape
    out = nl.ndarray((R, C), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(R // 128):
        rows = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=a[r * 128 : (r + 1) * 128, 0:C])
        gain = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=gain, src=g.ap(pattern=[[0, 128], [1, C]]))
        squares = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=rows)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
        mean = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / C)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=mean)
        normal = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=normal, data=rows, op0=nl.multiply, operand0=scale)
        result = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=normal, data2=gain, op=nl.multiply)
        nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, 0:C], src=result)
    return out
