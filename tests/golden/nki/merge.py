import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, g):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        rows = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=a[r * 128 : r * 128 + 128, 0:512])
        gain = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=gain, src=g.ap(pattern=[[0, 128], [1, 512]]))
        squares = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=rows,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        mean = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=0.001953125)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=mean)
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=result,
            data=rows,
            op0=nl.multiply,
            operand0=scale,
            op1=nl.multiply,
            operand1=gain,
        )
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:512], src=result)
    return out
