import nki
import nki.isa as nisa
import nki.language as nl


def masks():
    """Identity, and what is added to scores of later keys: query by key, and key by query."""
    zeros = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    ones = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    identity = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.affine_select(
        dst=identity,
        pattern=[[-1, 128]],
        channel_multiplier=1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    by_query = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.affine_select(
        dst=by_query,
        pattern=[[-1, 128]],
        channel_multiplier=1,
        on_true_tile=zeros,
        on_false_value=-29952.0,
        cmp_op=nl.greater_equal,
    )
    by_key = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.affine_select(
        dst=by_key,
        pattern=[[1, 128]],
        channel_multiplier=-1,
        on_true_tile=zeros,
        on_false_value=-29952.0,
        cmp_op=nl.greater_equal,
    )
    return identity, by_query, by_key


def head(q, k, v, o, l, m, constants):
    """Attention of one head, q[L][D], k[D][L], v[L][D]; later keys are never computed."""
    identity, by_query, by_key, ones = constants
    L, D = q.shape
    keys = nl.ndarray((D, L), dtype=nl.bfloat16, buffer=nl.sbuf)
    queries = nl.ndarray((D, L), dtype=nl.bfloat16, buffer=nl.sbuf)
    # Values with a column of ones: their product with the weights also sums the weights.
    values = nl.ndarray((128, L // 128, D + 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=values[:, :, D : D + 1], value=1.0)
    for g in nl.affine_range(L // 512):
        first, last = g * 512, (g + 1) * 512
        nisa.dma_copy(dst=keys[:, first:last], src=k[0:D, first:last])
        rows = nl.ndarray((128, 4, D), dtype=nl.bfloat16, buffer=nl.sbuf)
        turned = nl.ndarray((D, 512), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(4):
            start, stop = first + t * 128, first + (t + 1) * 128
            nisa.dma_copy(dst=rows[:, t, :], src=q[start:stop, 0:D])
            nisa.nc_transpose(dst=turned[:, t * 128 : (t + 1) * 128], data=rows[:, t, :])
        nisa.tensor_copy(dst=queries[:, first:last], src=turned)
        for t in nl.affine_range(4):
            start, stop = first + t * 128, first + (t + 1) * 128
            nisa.dma_copy(dst=values[:, g * 4 + t, 0:D], src=v[start:stop, 0:D])
    for g in nl.affine_range(L // 512):
        shifts = [
            nl.ndarray((1, 512), dtype=nl.bfloat16, buffer=nl.sbuf),
            nl.ndarray((1, 512), dtype=nl.bfloat16, buffer=nl.sbuf),
        ]
        tops = []
        for t in nl.affine_range(4):
            i = g * 4 + t
            query = queries[:, i * 128 : (i + 1) * 128]
            largest = nl.ndarray((128, g + 1), dtype=nl.float32, buffer=nl.sbuf)
            for j in nl.affine_range(g + 1):
                size = 512 if j < g else (t + 1) * 128
                part = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(
                    dst=part, stationary=query, moving=keys[:, j * 512 : j * 512 + size]
                )
                if j == g:
                    nisa.nc_matmul(
                        dst=part[:, t * 128 : (t + 1) * 128], stationary=identity, moving=by_query
                    )
                nisa.tensor_reduce(dst=largest[:, j : j + 1], op=nl.maximum, data=part, axis=1)
            top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=top, op=nl.maximum, data=largest, axis=1)
            tops.append(top)
            negative = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=negative, data=top, op0=nl.multiply, operand0=-1.0)
            # The maximum as a row, in two bfloat16 numbers whose sum has 16 digits.
            row = nl.ndarray((1, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=row, data=negative)
            coarse = shifts[0][:, t * 128 : (t + 1) * 128]
            nisa.tensor_copy(dst=coarse, src=row)
            nisa.tensor_tensor(
                dst=shifts[1][:, t * 128 : (t + 1) * 128], data1=row, data2=coarse, op=nl.subtract
            )
        totals = nl.ndarray((128, 4, 512), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(4 * g + 4):
            # Of the last four key tiles only the queries after them need a part.
            skipped = max(0, t - 4 * g)
            width = 512 - skipped * 128
            start = g * 512 + skipped * 128
            scores = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(
                dst=scores,
                stationary=keys[:, t * 128 : (t + 1) * 128],
                moving=queries[:, start : start + width],
            )
            for shift in shifts:
                nisa.nc_matmul(dst=scores, stationary=ones, moving=shift[:, skipped * 128 : 512])
            if t >= 4 * g:
                nisa.nc_matmul(dst=scores[:, 0:128], stationary=identity, moving=by_key)
            weights = nl.ndarray((128, width), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.activation(dst=weights, op=nl.exp, data=scores)
            for s in nl.affine_range(4 - skipped):
                nisa.nc_matmul(
                    dst=totals[:, skipped + s, 0 : D + 1],
                    stationary=weights[:, s * 128 : (s + 1) * 128],
                    moving=values[:, t, :],
                )
        for s in nl.affine_range(4):
            first = g * 512 + s * 128
            result = nl.ndarray((128, D), dtype=o.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=totals[:, s, 0:D])
            nisa.dma_copy(dst=o[first : first + 128, 0:D], src=result)
            logarithm = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=logarithm, op=nl.log, data=totals[:, s, D : D + 1])
            total = nl.ndarray((128, 1), dtype=l.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=total, data1=logarithm, data2=tops[s], op=nl.add)
            nisa.dma_copy(dst=l[first : first + 128, 0:1], src=total)
            maximum = nl.ndarray((128, 1), dtype=m.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=maximum, src=tops[s])
            nisa.dma_copy(dst=m[first : first + 128, 0:1], src=maximum)


@nki.jit
def kernel(q, k, v):
    H, L, D = q.shape
    o = nl.ndarray((H, L, D), dtype=q.dtype, buffer=nl.shared_hbm)
    l = nl.ndarray((H, L, 1), dtype=q.dtype, buffer=nl.shared_hbm)
    m = nl.ndarray((H, L, 1), dtype=q.dtype, buffer=nl.shared_hbm)
    identity, by_query, by_key = masks()
    ones = nl.ndarray((1, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for h in nl.affine_range(H):
        head(q[h], k[h], v[h], o[h], l[h], m[h], (identity, by_query, by_key, ones))
    return o, l, m
