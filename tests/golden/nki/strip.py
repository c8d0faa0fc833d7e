import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(input_tensor, gamma_vector, beta_vector, epsilon=1e-05):
    gamma = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=gamma, src=gamma_vector.ap(pattern=[[0, 128], [1, 1024]]))
    beta = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=beta, src=beta_vector.ap(pattern=[[0, 128], [1, 1024]]))
    out = nl.ndarray((256, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        rows = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=input_tensor[r * 128 : r * 128 + 128, 0:1024])
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=rows, axis=1)
        mean = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=0.0009765625)
        centred = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=centred, data=rows, op0=nl.subtract, operand0=mean)
        squares = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=centred)
        spread = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=spread, op=nl.add, data=squares, axis=1)
        variance = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=variance,
            data=spread,
            op0=nl.multiply,
            operand0=0.0009765625,
            op1=nl.add,
            operand1=epsilon,
        )
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=variance)
        for strip in nl.affine_range(2):
            squares_2 = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.tensor_scalar(
                dst=squares_2,
                data=centred[0:128, strip * 512 : strip * 512 + 512],
                op0=nl.multiply,
                operand0=scale,
            )
            centred_2 = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.tensor_tensor(
                dst=centred_2,
                data1=squares_2,
                data2=gamma[0:128, strip * 512 : strip * 512 + 512],
                op=nl.multiply,
            )
            rows_2 = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(
                dst=rows_2,
                data1=centred_2,
                data2=beta[0:128, strip * 512 : strip * 512 + 512],
                op=nl.add,
            )
            nisa.dma_copy(
                dst=out[r * 128 : r * 128 + 128, strip * 512 : strip * 512 + 512],
                src=rows_2,
            )
    return out
