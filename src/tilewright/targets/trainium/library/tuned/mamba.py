import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(delta, u, A, B, C):
    batch, channels, steps = delta.shape
    states = A.shape[1]
    tiles = channels // 128
    width = max(w for w in range(1, min(steps, 512) + 1) if steps % w == 0)
    # As many channel tiles at once as have a sum in PSUM in addition to the rows of B and C.
    group = max(g for g in range(1, 5) if tiles % g == 0)
    out = nl.ndarray((batch, channels, steps), dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for b in nl.affine_range(batch):
        for g in nl.affine_range(tiles // group):
            rates, carries = [], []
            for c in nl.affine_range(group):
                first = (g * group + c) * 128
                rate = nl.ndarray((128, states), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=rate, src=A[first : first + 128, 0:states])
                rates.append(rate)
                carry = nl.ndarray((128, states), dtype=nl.float32, buffer=nl.sbuf)
                nisa.memset(dst=carry, value=0.0)
                carries.append(carry)
            for w in nl.sequential_range(steps // width):
                start, stop = w * width, (w + 1) * width
                step_of, input_of, sum_of = [], [], []
                for c in nl.affine_range(group):
                    first = (g * group + c) * 128
                    step = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.dma_copy(dst=step, src=delta[b, first : first + 128, start:stop])
                    signal = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.dma_copy(dst=signal, src=u[b, first : first + 128, start:stop])
                    product = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.tensor_tensor(dst=product, data1=step, data2=signal, op=nl.multiply)
                    total = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.memset(dst=total, value=0.0)
                    step_of.append(step)
                    input_of.append(product)
                    sum_of.append(total)
                for s in nl.affine_range(states):
                    # Rows of B and C reach all partitions through PE, and stay in PSUM, where they
                    # halve the cost of the products with them.
                    gain_row = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.dma_copy(dst=gain_row, src=B[b, s : s + 1, start:stop])
                    read_row = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.dma_copy(dst=read_row, src=C[b, s : s + 1, start:stop])
                    gain = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
                    nisa.nc_matmul(
                        dst=gain, stationary=ones, moving=gain_row, is_stationary_onezero=True
                    )
                    read = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
                    nisa.nc_matmul(
                        dst=read, stationary=ones, moving=read_row, is_stationary_onezero=True
                    )
                    for c in nl.affine_range(group):
                        decay = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.activation(
                            dst=decay, op=nl.exp, data=step_of[c], scale=rates[c][:, s : s + 1]
                        )
                        driven = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.tensor_tensor(
                            dst=driven, data1=input_of[c], data2=gain, op=nl.multiply
                        )
                        state = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.tensor_tensor_scan(
                            dst=state,
                            data0=decay,
                            data1=driven,
                            initial=carries[c][:, s : s + 1],
                            op0=nl.multiply,
                            op1=nl.add,
                        )
                        nisa.activation(
                            dst=carries[c][:, s : s + 1],
                            op=nl.copy,
                            data=state[:, width - 1 : width],
                        )
                        seen = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
                        nisa.tensor_tensor(dst=seen, data1=state, data2=read, op=nl.multiply)
                        nisa.tensor_tensor(dst=sum_of[c], data1=sum_of[c], data2=seen, op=nl.add)
                for c in nl.affine_range(group):
                    first = (g * group + c) * 128
                    nisa.dma_copy(dst=out[b, first : first + 128, start:stop], src=sum_of[c])
    return out
