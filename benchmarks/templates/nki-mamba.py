# workload: trainium:mamba-1x256x4x1024
# A selective scan: widths of scans and transfers, how rows of B and C reach all partitions.
import nki
import nki.isa as nisa
import nki.language as nl

WIDTH = tune(512, 128, 256, 1024)  # steps of one scan
LOAD = tune(512, 128, 256, 1024)  # steps of one transfer of delta and u
GROUP = tune(1, 2)  # tiles of 128 channels at once
ROWS = tune(0, 1, 2)  # rows of B and C reach all partitions through DMA, PE, or PE and ACT
SEEN = tune(0, 1)  # 1: the product of state and C lies in PSUM
CARRY = tune(0, 1, 2)  # the last state is copied by ACT, by DVE, or not at all
FIRST = tune(0, 1)  # 1: the first state's product begins the sum, 0: zeros do
ONE_RATE = tune(0, 1)  # 1: rates of one state are loaded at a time
STATES_OUTSIDE = tune(0, 1)  # 1: states are outside the loop over tiles of channels
STORE_LATE = tune(0, 1)  # 1: results are stored after the last scan
tune_require(LOAD % WIDTH == 0)
tune_require(WIDTH <= 512 or ROWS == 0 and SEEN == 0)


def everywhere(rows, b, s, start, steps, ones):
    if ROWS == 0:
        tile = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        states = rows.shape[1]
        offset = (b * states + s) * steps + start
        nisa.dma_copy(dst=tile, src=rows.ap(pattern=[[0, 128], [1, WIDTH]], offset=offset))
        return tile
    row = nl.ndarray((1, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=rows[b, s : s + 1, start : start + WIDTH])
    tile = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=tile, stationary=ones, moving=row, is_stationary_onezero=True)
    if ROWS == 1:
        return tile
    copy = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=copy, op=nl.copy, data=tile)
    return copy


def scan(step, driving, rate, gain, read, carry, total, s):
    decay = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=decay, op=nl.exp, data=step, scale=rate)
    driven = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=driven, data1=driving, data2=gain, op=nl.multiply)
    state = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(
        dst=state, data0=decay, data1=driven, initial=carry, op0=nl.multiply, op1=nl.add
    )
    if FIRST and s == 0:
        nisa.tensor_tensor(dst=total, data1=state, data2=read, op=nl.multiply)
    else:
        if SEEN:
            seen = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.psum)
        else:
            seen = nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=seen, data1=state, data2=read, op=nl.multiply)
        nisa.tensor_tensor(dst=total, data1=total, data2=seen, op=nl.add)
    last = state[:, WIDTH - 1 : WIDTH]
    if CARRY == 2:
        return last
    kept = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    if CARRY:
        nisa.tensor_copy(dst=kept, src=last)
    else:
        nisa.activation(dst=kept, op=nl.copy, data=last)
    return kept


@nki.jit
def kernel(delta, u, A, B, C):
    batch, channels, steps = delta.shape
    states = A.shape[1]
    tiles = channels // 128
    out = nl.ndarray((batch, channels, steps), dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for b in nl.affine_range(batch):
        for g in nl.affine_range(tiles // GROUP):
            rates, carries, totals = [], [], []
            for c in nl.affine_range(GROUP):
                first = (g * GROUP + c) * 128
                rate = nl.ndarray((128, states), dtype=nl.float32, buffer=nl.sbuf)
                if ONE_RATE:
                    for s in nl.affine_range(states):
                        nisa.dma_copy(
                            dst=rate[:, s : s + 1], src=A[first : first + 128, s : s + 1]
                        )
                else:
                    nisa.dma_copy(dst=rate, src=A[first : first + 128, 0:states])
                rates.append(rate)
                carries.append([0.0] * states)
                total = nl.ndarray((128, steps), dtype=nl.float32, buffer=nl.sbuf)
                if not FIRST:
                    nisa.memset(dst=total, value=0.0)
                totals.append(total)
            for w in nl.sequential_range(steps // LOAD):
                delta_of, driving_of = [], []
                for c in nl.affine_range(GROUP):
                    first = (g * GROUP + c) * 128
                    given = nl.ndarray((128, LOAD), dtype=nl.float32, buffer=nl.sbuf)
                    source = delta[b, first : first + 128, w * LOAD : (w + 1) * LOAD]
                    nisa.dma_copy(dst=given, src=source)
                    signal = nl.ndarray((128, LOAD), dtype=nl.float32, buffer=nl.sbuf)
                    source = u[b, first : first + 128, w * LOAD : (w + 1) * LOAD]
                    nisa.dma_copy(dst=signal, src=source)
                    driving = nl.ndarray((128, LOAD), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.tensor_tensor(dst=driving, data1=given, data2=signal, op=nl.multiply)
                    delta_of.append(given)
                    driving_of.append(driving)
                for p in nl.sequential_range(LOAD // WIDTH):
                    start, stop = p * WIDTH, (p + 1) * WIDTH
                    at = w * LOAD + start
                    outer, inner = (states, GROUP) if STATES_OUTSIDE else (GROUP, states)
                    for x in range(outer):
                        for y in range(inner):
                            s, c = (x, y) if STATES_OUTSIDE else (y, x)
                            if y == 0 or not STATES_OUTSIDE:
                                gain = everywhere(B, b, s, at, steps, ones)
                                read = everywhere(C, b, s, at, steps, ones)
                            carries[c][s] = scan(
                                delta_of[c][:, start:stop],
                                driving_of[c][:, start:stop],
                                rates[c][:, s : s + 1],
                                gain,
                                read,
                                carries[c][s],
                                totals[c][:, at : at + WIDTH],
                                s,
                            )
                    if not STORE_LATE:
                        for c in nl.affine_range(GROUP):
                            first = (g * GROUP + c) * 128
                            nisa.dma_copy(
                                dst=out[b, first : first + 128, at : at + WIDTH],
                                src=totals[c][:, at : at + WIDTH],
                            )
            if STORE_LATE:
                for c in nl.affine_range(GROUP):
                    first = (g * GROUP + c) * 128
                    nisa.dma_copy(dst=out[b, first : first + 128, 0:steps], src=totals[c])
    return out
