import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(delta, u, A, B, C):
    batch, channels, steps = delta.shape
    states = A.shape[1]
    out = nl.ndarray((batch, channels, steps), dtype=delta.dtype, buffer=nl.shared_hbm)
    for b in nl.affine_range(batch):
        for c in nl.affine_range(channels // 128):
            first, last = c * 128, (c + 1) * 128
            total = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=total, value=0.0)
            for s in nl.sequential_range(states):
                step = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=step, src=delta[b, first:last, 0:steps])
                signal = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=signal, src=u[b, first:last, 0:steps])
                rate = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=rate, src=A[first:last, s : s + 1])
                offset = (b * states + s) * steps
                gain = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=gain, src=B.ap(pattern=[[0, 128], [1, steps]], offset=offset))
                read = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=read, src=C.ap(pattern=[[0, 128], [1, steps]], offset=offset))
                decay = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=decay, op=nl.exp, data=step, scale=rate)
                nisa.tensor_tensor(dst=signal, data1=step, data2=signal, op=nl.multiply)
                nisa.tensor_tensor(dst=signal, data1=signal, data2=gain, op=nl.multiply)
                state = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor_scan(
                    dst=state, data0=decay, data1=signal, initial=0.0, op0=nl.multiply, op1=nl.add
                )
                nisa.tensor_tensor(dst=state, data1=state, data2=read, op=nl.multiply)
                nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
            nisa.dma_copy(dst=out[b, first:last, 0:steps], src=total)
    return out
