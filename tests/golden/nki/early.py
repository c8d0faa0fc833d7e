import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(delta, u, A, B, C):
    out = nl.ndarray((1, 256, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for c in nl.affine_range(2):
        total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        step = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=step, src=delta[0, c * 128 : c * 128 + 128, 0:64])
        signal = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=signal, src=u[0, c * 128 : c * 128 + 128, 0:64])
        signal_2 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=signal_2, data1=step, data2=signal, op=nl.multiply)
        for s in nl.sequential_range(2):
            rate = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=rate, src=A[c * 128 : c * 128 + 128, s : s + 1])
            gain = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=gain, src=B.ap(pattern=[[0, 128], [1, 64]], offset=s * 64))
            read = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=read, src=C.ap(pattern=[[0, 128], [1, 64]], offset=s * 64))
            decay = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=step, scale=rate)
            signal_3 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=signal_3, data1=signal_2, data2=gain, op=nl.multiply)
            state = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=state,
                data0=decay,
                data1=signal_3,
                initial=0.0,
                op0=nl.multiply,
                op1=nl.add,
            )
            state_2 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=state_2, data1=state, data2=read, op=nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=state_2, op=nl.add)
        nisa.dma_copy(dst=out[0, c * 128 : c * 128 + 128, 0:64], src=total)
    return out
