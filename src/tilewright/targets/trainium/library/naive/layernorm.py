import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(input_tensor, gamma_vector, beta_vector, epsilon=1e-5):
    R, C = input_tensor.shape
    out = nl.ndarray((R, C), dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    gamma = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=gamma, src=gamma_vector.ap(pattern=[[0, 128], [1, C]]))
    beta = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=beta, src=beta_vector.ap(pattern=[[0, 128], [1, C]]))
    for r in nl.affine_range(R // 128):
        rows = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=input_tensor[r * 128 : (r + 1) * 128, 0:C])
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=rows, axis=1)
        mean = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / C)
        centred = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=centred, data=rows, op0=nl.subtract, operand0=mean)
        squares = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=centred)
        spread = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=spread, op=nl.add, data=squares, axis=1)
        variance = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=variance, data=spread, op0=nl.multiply, operand0=1.0 / C, op1=nl.add, operand1=epsilon
        )
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=variance)
        normal = squares
        nisa.tensor_scalar(dst=normal, data=centred, op0=nl.multiply, operand0=scale)
        scaled = centred
        nisa.tensor_tensor(dst=scaled, data1=normal, data2=gamma, op=nl.multiply)
        result = rows
        nisa.tensor_tensor(dst=result, data1=scaled, data2=beta, op=nl.add)
        nisa.dma_copy(dst=out[r * 128 : (r + 1) * 128, 0:C], src=result)
    return out
