import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v):
    values = nl.ndarray((128, 4, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    keys = nl.ndarray((64, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    for t in nl.affine_range(4):
        nisa.dma_copy(dst=values[0:128, t, 0:64], src=v[t * 128 : t * 128 + 128, 0:64])
        part = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=k[t * 128 : t * 128 + 128, 0:64])
        turned = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=part)
        nisa.tensor_copy(dst=keys[0:64, t * 128 : t * 128 + 128], src=turned)
    out = nl.ndarray((512, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        part_2 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=part_2, src=q[i * 128 : i * 128 + 128, 0:64])
        nisa.tensor_scalar(dst=part_2, data=part_2, op0=nl.multiply, operand0=0.125)
        turned_2 = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned_2, data=part_2)
        query = nl.ndarray((64, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=query, src=turned_2)
        row = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        tops = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(4):
            part_3 = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=part_3, stationary=query, moving=keys[0:64, j * 128 : j * 128 + 128])
            nisa.tensor_copy(dst=row[0:128, j * 128 : j * 128 + 128], src=part_3)
            nisa.tensor_reduce(dst=tops[0:128, j : j + 1], op=nl.maximum, data=part_3, axis=1)
        top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tops, axis=1, negate=True)
        nisa.activation(dst=row, op=nl.exp, data=row, bias=top)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=row, axis=1)
        inverse = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        narrow = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=narrow, src=row)
        product = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
        for t_2 in nl.affine_range(4):
            turned_3 = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned_3, data=narrow[0:128, t_2 * 128 : t_2 * 128 + 128])
            left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=left, src=turned_3)
            nisa.nc_matmul(dst=product, stationary=left, moving=values[0:128, t_2, 0:64])
        result = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=product, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, 0:64], src=result)
    return out
