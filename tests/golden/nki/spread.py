import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(delta, u, A, B, C):
    ones = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    out = nl.ndarray((1, 256, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for c in nl.affine_range(2):
        total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        for s in nl.sequential_range(2):
            step = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=step, src=delta[0, c * 128 : c * 128 + 128, 0:64])
            signal = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=signal, src=u[0, c * 128 : c * 128 + 128, 0:64])
            rate = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=rate, src=A[c * 128 : c * 128 + 128, s : s + 1])
            row = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=B.ap(pattern=[[0, 1], [1, 64]], offset=s * 64))
            wide = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=wide, stationary=ones, moving=row, is_stationary_onezero=True)
            read = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=read, src=C.ap(pattern=[[0, 128], [1, 64]], offset=s * 64))
            decay = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=step, scale=rate)
            nisa.tensor_tensor(dst=signal, data1=step, data2=signal, op=nl.multiply)
            nisa.tensor_tensor(dst=signal, data1=signal, data2=wide, op=nl.multiply)
            state = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=state,
                data0=decay,
                data1=signal,
                initial=0.0,
                op0=nl.multiply,
                op1=nl.add,
            )
            nisa.tensor_tensor(dst=state, data1=state, data2=read, op=nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
        nisa.dma_copy(dst=out[0, c * 128 : c * 128 + 128, 0:64], src=total)
    return out
