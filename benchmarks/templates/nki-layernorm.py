# workload: trainium:layernorm-256x2048
# Mean and variance of rows: which engine sums what, how wide, and where tiles lie.
import nki
import nki.isa as nisa
import nki.language as nl

LOAD = tune(512, 128, 256, 1024, 2048)  # columns of one transfer of the input
STORE = tune(512, 128, 256, 1024, 2048)  # columns of one transfer of out
WORK = tune(512, 128, 256, 1024, 2048)  # columns of one instruction
SUMS = tune(0, 1, 2)  # rows are summed by ACT, by DVE, or by both in turn
SPREADS = tune(0, 1, 2)  # the same of the squares of distances from the mean
NORMAL = tune(0, 1)  # 1: ACT takes off the mean, 0: DVE takes it off and scales at once
SCALED = tune(0, 1)  # 1: the product with gamma lies in PSUM
CENTRED = tune(0, 1)  # 1: the normalised row lies in PSUM
VECTORS = tune(0, 1)  # 1: gamma and beta reach all partitions through PE
tune_require(LOAD % WORK == 0 and STORE % WORK == 0)
tune_require(SCALED + CENTRED == 0 or WORK <= 512)


def place(in_psum):
    if in_psum:
        return nl.ndarray((128, WORK), dtype=nl.float32, buffer=nl.psum)
    return nl.ndarray((128, WORK), dtype=nl.float32, buffer=nl.sbuf)


def everywhere(vector, C):
    tile = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
    if VECTORS:
        row = nl.ndarray((1, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=vector.reshape((1, C)))
        ones = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=ones, value=1.0)
        for c in nl.affine_range(C // 512):
            copies = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(
                dst=copies,
                stationary=ones,
                moving=row[:, c * 512 : (c + 1) * 512],
                is_stationary_onezero=True,
            )
            nisa.activation(dst=tile[:, c * 512 : (c + 1) * 512], op=nl.copy, data=copies)
    else:
        nisa.dma_copy(dst=tile, src=vector.ap(pattern=[[0, 128], [1, C]]))
    return tile


@nki.jit
def kernel(input_tensor, gamma_vector, beta_vector, epsilon=1e-5):
    R, C = input_tensor.shape
    parts = C // WORK
    out = nl.ndarray((R, C), dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    gamma = everywhere(gamma_vector, C)
    beta = everywhere(beta_vector, C)
    for r in nl.affine_range(R // 128):
        rows = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        for c in nl.affine_range(C // LOAD):
            nisa.dma_copy(
                dst=rows[:, c * LOAD : (c + 1) * LOAD],
                src=input_tensor[r * 128 : (r + 1) * 128, c * LOAD : (c + 1) * LOAD],
            )
        sums = nl.ndarray((128, parts), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(parts):
            part = rows[:, p * WORK : (p + 1) * WORK]
            if SUMS == 0 or (SUMS == 2 and p % 2):
                unused = nl.ndarray((128, WORK), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.activation_reduce(
                    dst=unused,
                    op=nl.copy,
                    data=part,
                    reduce_op=nl.add,
                    reduce_res=sums[:, p : p + 1],
                )
            else:
                nisa.tensor_reduce(dst=sums[:, p : p + 1], op=nl.add, data=part, axis=1)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        negative = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=negative, data=total, op0=nl.multiply, operand0=-1.0 / C)
        spreads = nl.ndarray((128, parts), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(parts):
            part = rows[:, p * WORK : (p + 1) * WORK]
            if SPREADS == 0 or (SPREADS == 2 and p % 2):
                unused = nl.ndarray((128, WORK), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.activation_reduce(
                    dst=unused,
                    op=nl.square,
                    data=part,
                    bias=negative,
                    reduce_op=nl.add,
                    reduce_res=spreads[:, p : p + 1],
                )
            else:
                apart = place(0)
                nisa.tensor_scalar(dst=apart, data=part, op0=nl.add, operand0=negative)
                squares = place(0)
                nisa.tensor_tensor(dst=squares, data1=apart, data2=apart, op=nl.multiply)
                nisa.tensor_reduce(dst=spreads[:, p : p + 1], op=nl.add, data=squares, axis=1)
        spread = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=spread, op=nl.add, data=spreads, axis=1)
        variance = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=variance,
            data=spread,
            op0=nl.multiply,
            operand0=1.0 / C,
            op1=nl.add,
            operand1=epsilon,
        )
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=variance)
        result = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(parts):
            part = rows[:, p * WORK : (p + 1) * WORK]
            normal = place(CENTRED)
            if NORMAL:
                apart = place(0)
                nisa.activation(dst=apart, op=nl.copy, data=part, bias=negative)
                nisa.activation(dst=normal, op=nl.copy, data=apart, scale=scale)
            else:
                nisa.tensor_scalar(
                    dst=normal,
                    data=part,
                    op0=nl.add,
                    operand0=negative,
                    op1=nl.multiply,
                    operand1=scale,
                )
            scaled = place(SCALED)
            nisa.tensor_tensor(
                dst=scaled, data1=normal, data2=gamma[:, p * WORK : (p + 1) * WORK], op=nl.multiply
            )
            nisa.tensor_tensor(
                dst=result[:, p * WORK : (p + 1) * WORK],
                data1=scaled,
                data2=beta[:, p * WORK : (p + 1) * WORK],
                op=nl.add,
            )
        for c in nl.affine_range(C // STORE):
            nisa.dma_copy(
                dst=out[r * 128 : (r + 1) * 128, c * STORE : (c + 1) * STORE],
                src=result[:, c * STORE : (c + 1) * STORE],
            )
    return out
