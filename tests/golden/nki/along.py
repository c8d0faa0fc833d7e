import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v):
    queries = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=queries, src=q)
    keys = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=k)
    values = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=v)
    out = nl.ndarray((1024, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        row = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        parts = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(2):
            part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(
                dst=part,
                stationary=queries[0:128, i * 128 : i * 128 + 128],
                moving=keys[0:128, j * 512 : j * 512 + 512],
            )
            nisa.tensor_scalar_reduce(
                dst=row[0:128, j * 512 : j * 512 + 512],
                data=part,
                op0=nl.multiply,
                operand0=1.0,
                reduce_op=nl.maximum,
                reduce_res=parts[0:128, j : j + 1],
            )
        top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=parts, axis=1)
        nisa.tensor_scalar(dst=row, data=row, op0=nl.subtract, operand0=top)
        nisa.activation(dst=row, op=nl.exp, data=row)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=row, axis=1)
        inverse = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=inverse)
        total_2 = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(8):
            part_2 = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=part_2, src=row[0:128, t * 128 : t * 128 + 128])
            turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=part_2)
            left = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=left, src=turned)
            value = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=value, data=values[0:128, t * 128 : t * 128 + 128])
            right = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=right, src=value)
            nisa.nc_matmul(dst=total_2, stationary=left, moving=right)
        result = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total_2)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, 0:128], src=result)
    return out
