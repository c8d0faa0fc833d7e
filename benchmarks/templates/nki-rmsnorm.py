# workload: trainium:rmsnorm-256x2048
# Which engine does what of a normalisation, how wide, and where its intermediate tiles lie.
import nki
import nki.isa as nisa
import nki.language as nl

LOAD = tune(512, 128, 256, 1024, 2048)  # columns of one transfer of a
STORE = tune(512, 128, 256, 1024, 2048)  # columns of one transfer of out
WORK = tune(512, 128, 256, 1024, 2048)  # columns of one instruction
ENGINE = tune(0, 1, 2)  # squares are summed by ACT, by DVE, or by both in turn
SCALED = tune(0, 1, 2)  # rows are scaled with the gain by one instruction, by two, by two engines
PSUM = tune(0, 1)  # 1: what is between those two instructions lies in PSUM
GAIN = tune(128, 256, 512, 1024, 2048)  # columns of one transfer of the gain
tune_require(LOAD % WORK == 0 and STORE % WORK == 0)
tune_require(SCALED > 0 or PSUM == 0)


@nki.jit
def kernel(a, g):
    R, C = a.shape
    parts = C // WORK
    out = nl.ndarray((R, C), dtype=a.dtype, buffer=nl.shared_hbm)
    gain = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
    for c in nl.affine_range(C // GAIN):
        nisa.dma_copy(
            dst=gain[:, c * GAIN : (c + 1) * GAIN],
            src=g.ap(pattern=[[0, 128], [1, GAIN]], offset=c * GAIN),
        )
    for r in nl.affine_range(R // 128):
        rows = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        for c in nl.affine_range(C // LOAD):
            nisa.dma_copy(
                dst=rows[:, c * LOAD : (c + 1) * LOAD],
                src=a[r * 128 : (r + 1) * 128, c * LOAD : (c + 1) * LOAD],
            )
        sums = nl.ndarray((128, parts), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(parts):
            part = rows[:, p * WORK : (p + 1) * WORK]
            squares = nl.ndarray((128, WORK), dtype=nl.float32, buffer=nl.sbuf)
            if ENGINE == 0 or (ENGINE == 2 and p % 2):
                nisa.activation_reduce(
                    dst=squares,
                    op=nl.square,
                    data=part,
                    reduce_op=nl.add,
                    reduce_res=sums[:, p : p + 1],
                )
            else:
                nisa.tensor_tensor(dst=squares, data1=part, data2=part, op=nl.multiply)
                nisa.tensor_reduce(dst=sums[:, p : p + 1], op=nl.add, data=squares, axis=1)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / C)
        result = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(parts):
            part = rows[:, p * WORK : (p + 1) * WORK]
            factor = gain[:, p * WORK : (p + 1) * WORK]
            to = result[:, p * WORK : (p + 1) * WORK]
            if SCALED == 0:
                nisa.scalar_tensor_tensor(
                    dst=to,
                    data=part,
                    op0=nl.multiply,
                    operand0=scale,
                    op1=nl.multiply,
                    operand1=factor,
                )
            else:
                if PSUM and WORK <= 512:
                    normal = nl.ndarray((128, WORK), dtype=nl.float32, buffer=nl.psum)
                else:
                    normal = nl.ndarray((128, WORK), dtype=nl.float32, buffer=nl.sbuf)
                if SCALED == 1:
                    nisa.tensor_scalar(dst=normal, data=part, op0=nl.multiply, operand0=scale)
                else:
                    nisa.activation(dst=normal, op=nl.copy, data=part, scale=scale)
                nisa.tensor_tensor(dst=to, data1=normal, data2=factor, op=nl.multiply)
        for c in nl.affine_range(C // STORE):
            nisa.dma_copy(
                dst=out[r * 128 : (r + 1) * 128, c * STORE : (c + 1) * STORE],
                src=result[:, c * STORE : (c + 1) * STORE],
            )
    return out
