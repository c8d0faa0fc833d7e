import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v, olm_prev, tile_mask, q_tile_idx=0):
    D, L = q.shape
    out = nl.ndarray((128, D + 2), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    # Keys after the query tile are masked as a whole, so only the last block needs the mask.
    tiles = q_tile_idx + 1
    blocks = (tiles + 3) // 4
    previous = nl.ndarray((128, D + 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=previous, src=olm_prev)
    query = nl.ndarray((D, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=query, src=q[0:D, q_tile_idx * 128 : (q_tile_idx + 1) * 128])
    mask = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=mask, src=tile_mask[0:128, q_tile_idx * 128 : (q_tile_idx + 1) * 128])
    nisa.tensor_scalar(
        dst=mask, data=mask, op0=nl.multiply, operand0=9984.0, op1=nl.subtract, operand1=9984.0
    )
    unit = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=unit, value=1.0)
    identity = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.affine_select(
        dst=identity,
        pattern=[[-1, 128]],
        channel_multiplier=1,
        on_true_tile=unit,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    ones = nl.ndarray((1, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    key_of = []
    largest = nl.ndarray((128, blocks + 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=largest[:, blocks : blocks + 1], src=previous[:, D + 1 : D + 2])
    for j in nl.affine_range(blocks):
        size = min(512, tiles * 128 - j * 512)
        keys = nl.ndarray((D, size), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=keys, src=k[0:D, j * 512 : j * 512 + size])
        key_of.append(keys)
        part = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=query, moving=keys)
        if j == blocks - 1:
            nisa.nc_matmul(dst=part[:, size - 128 : size], stationary=identity, moving=mask)
        nisa.tensor_reduce(dst=largest[:, j : j + 1], op=nl.maximum, data=part, axis=1)
    negative = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=negative, op=nl.maximum, data=largest, axis=1, negate=True)
    shrink = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=shrink, op=nl.exp, data=previous[:, D + 1 : D + 2], bias=negative)
    # The maximum as rows, in two bfloat16 numbers whose sum has 16 digits; four tiles of keys
    # share one exponential.
    row = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=row, data=negative)
    coarse = nl.ndarray((1, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    fine = nl.ndarray((1, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    for t in nl.affine_range(4):
        part = coarse[:, t * 128 : (t + 1) * 128]
        nisa.tensor_copy(dst=part, src=row)
        nisa.tensor_tensor(
            dst=fine[:, t * 128 : (t + 1) * 128], data1=row, data2=part, op=nl.subtract
        )
    turned_mask = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=mask)
    nisa.tensor_copy(dst=turned_mask, src=turned)
    total = nl.ndarray((128, D + 1), dtype=nl.float32, buffer=nl.psum)
    for j in nl.affine_range(blocks):
        count = min(4, tiles - j * 4)
        values = nl.ndarray((128, count, D + 1), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(dst=values[:, :, D : D + 1], value=1.0)
        nisa.dma_copy(dst=values[:, :, 0:D], src=v[0:128, j * 4 : j * 4 + count, 0:D])
        scores = nl.ndarray((128, count * 128), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(count):
            nisa.nc_matmul(
                dst=scores[:, t * 128 : (t + 1) * 128],
                stationary=key_of[j][:, t * 128 : (t + 1) * 128],
                moving=query,
            )
        nisa.nc_matmul(dst=scores, stationary=ones, moving=coarse[:, 0 : count * 128])
        nisa.nc_matmul(dst=scores, stationary=ones, moving=fine[:, 0 : count * 128])
        if j == blocks - 1:
            nisa.nc_matmul(
                dst=scores[:, (count - 1) * 128 : count * 128],
                stationary=identity,
                moving=turned_mask,
            )
        weights = nl.ndarray((128, count * 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.activation(dst=weights, op=nl.exp, data=scores)
        for t in nl.affine_range(count):
            nisa.nc_matmul(
                dst=total, stationary=weights[:, t * 128 : (t + 1) * 128], moving=values[:, t, :]
            )
    result = nl.ndarray((128, D + 2), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=result[:, 0 : D + 1],
        data=previous[:, 0 : D + 1],
        op0=nl.multiply,
        operand0=shrink,
        op1=nl.add,
        operand1=total,
    )
    nisa.tensor_scalar(
        dst=result[:, D + 1 : D + 2], data=negative, op0=nl.multiply, operand0=-1.0
    )
    nisa.dma_copy(dst=out, src=result)
    return out
