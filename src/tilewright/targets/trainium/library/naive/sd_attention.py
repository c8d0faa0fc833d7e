import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v):
    L, D = q.shape
    tiles, blocks = L // 128, L // 128
    out = nl.ndarray((L, D), dtype=q.dtype, buffer=nl.shared_hbm)
    values = nl.ndarray((128, tiles, D), dtype=nl.bfloat16, buffer=nl.sbuf)
    keys = nl.ndarray((D, L), dtype=nl.bfloat16, buffer=nl.sbuf)
    for t in nl.affine_range(tiles):
        nisa.dma_copy(dst=values[:, t, :], src=v[t * 128 : (t + 1) * 128, 0:D])
        part = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=k[t * 128 : (t + 1) * 128, 0:D])
        turned = nl.ndarray((D, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=part)
        nisa.tensor_copy(dst=keys[:, t * 128 : (t + 1) * 128], src=turned)
    for i in nl.affine_range(tiles):
        part = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=q[i * 128 : (i + 1) * 128, 0:D])
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=0.125)
        turned = nl.ndarray((D, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=part)
        query = nl.ndarray((D, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=query, src=turned)
        row = nl.ndarray((128, L), dtype=nl.float32, buffer=nl.sbuf)
        tops = nl.ndarray((128, blocks), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(blocks):
            part = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=part, stationary=query, moving=keys[:, j * 128 : (j + 1) * 128])
            nisa.tensor_copy(dst=row[:, j * 128 : (j + 1) * 128], src=part)
            nisa.tensor_reduce(dst=tops[:, j : j + 1], op=nl.maximum, data=part, axis=1)
        top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tops, axis=1, negate=True)
        nisa.activation(dst=row, op=nl.exp, data=row, bias=top)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=row, axis=1)
        inverse = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        narrow = nl.ndarray((128, L), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=narrow, src=row)
        product = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(tiles):
            turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=narrow[:, t * 128 : (t + 1) * 128])
            left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=left, src=turned)
            nisa.nc_matmul(dst=product, stationary=left, moving=values[:, t, :])
        result = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=product, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, 0:D], src=result)
    return out
