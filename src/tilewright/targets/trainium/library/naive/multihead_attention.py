import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v):
    H, L, D = q.shape
    o = nl.ndarray((H, L, D), dtype=q.dtype, buffer=nl.shared_hbm)
    l = nl.ndarray((H, L, 1), dtype=q.dtype, buffer=nl.shared_hbm)
    m = nl.ndarray((H, L, 1), dtype=q.dtype, buffer=nl.shared_hbm)
    for h in nl.affine_range(H):
        for i in nl.affine_range(L // 128):
            first, last = i * 128, (i + 1) * 128
            tile = nl.ndarray((128, D), dtype=q.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=q[h, first:last, 0:D])
            turned = nl.ndarray((D, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile)
            query = nl.ndarray((D, 128), dtype=q.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=query, src=turned)
            scores = nl.ndarray((128, L), dtype=nl.float32, buffer=nl.sbuf)
            tops = nl.ndarray((128, L // 512), dtype=nl.float32, buffer=nl.sbuf)
            for j in nl.affine_range(L // 512):
                keys = nl.ndarray((D, 512), dtype=k.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=keys, src=k[h, 0:D, j * 512 : (j + 1) * 512])
                part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=part, stationary=query, moving=keys)
                copied = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=copied, src=part)
                nisa.affine_select(
                    dst=scores[:, j * 512 : (j + 1) * 512],
                    pattern=[[-1, 512]],
                    channel_multiplier=1,
                    on_true_tile=copied,
                    on_false_value=-9984.0,
                    cmp_op=nl.greater_equal,
                    offset=i * 128 - j * 512,
                )
                nisa.tensor_reduce(
                    dst=tops[:, j : j + 1],
                    op=nl.maximum,
                    data=scores[:, j * 512 : (j + 1) * 512],
                    axis=1,
                )
            top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=top, op=nl.maximum, data=tops, axis=1)
            negative = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=negative, data=top, op0=nl.multiply, operand0=-1.0)
            powers = nl.ndarray((128, L), dtype=nl.bfloat16, buffer=nl.sbuf)
            sums = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)
            for p in nl.affine_range(2):
                start, stop = p * (L // 2), (p + 1) * (L // 2)
                nisa.activation(
                    dst=powers[:, start:stop], op=nl.exp, data=scores[:, start:stop], bias=negative
                )
                nisa.tensor_reduce(
                    dst=sums[:, p : p + 1], op=nl.add, data=powers[:, start:stop], axis=1
                )
            total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
            product = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.psum)
            for t in nl.affine_range(L // 128):
                part = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_transpose(dst=part, data=powers[:, t * 128 : (t + 1) * 128])
                left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.tensor_copy(dst=left, src=part)
                value = nl.ndarray((128, D), dtype=v.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=value, src=v[h, t * 128 : (t + 1) * 128, 0:D])
                nisa.nc_matmul(dst=product, stationary=left, moving=value)
            result = nl.ndarray((128, D), dtype=o.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=product)
            nisa.dma_copy(dst=o[h, first:last, 0:D], src=result)
            logarithm = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=logarithm, op=nl.log, data=total)
            nisa.tensor_tensor(dst=logarithm, data1=logarithm, data2=top, op=nl.add)
            nisa.dma_copy(dst=l[h, first:last, 0:1], src=logarithm)
            nisa.dma_copy(dst=m[h, first:last, 0:1], src=top)
    return o, l, m
