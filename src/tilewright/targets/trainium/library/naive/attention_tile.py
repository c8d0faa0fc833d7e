import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(q, k, v, olm_prev, tile_mask, q_tile_idx=0):
    D, L = q.shape
    out = nl.ndarray((128, D + 2), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    previous = nl.ndarray((128, D + 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=previous, src=olm_prev)
    total = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=previous[:, 0:D])
    sums = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sums, src=previous[:, D : D + 1])
    top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=top, src=previous[:, D + 1 : D + 2])
    for j in nl.sequential_range(L // 512):
        first, last = j * 512, (j + 1) * 512
        query = nl.ndarray((D, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=query, src=q[0:D, q_tile_idx * 128 : (q_tile_idx + 1) * 128])
        keys = nl.ndarray((D, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=keys, src=k[0:D, first:last])
        part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=query, moving=keys)
        mask = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=mask, src=tile_mask[0:128, first:last])
        nisa.tensor_scalar(
            dst=mask, data=mask, op0=nl.multiply, operand0=9984.0, op1=nl.subtract, operand1=9984.0
        )
        scores = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=scores, data1=part, data2=mask, op=nl.add)
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1)
        new = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=new, data1=top, data2=largest, op=nl.maximum)
        negative = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=negative, data=new, op0=nl.multiply, operand0=-1.0)
        shrink = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=shrink, op=nl.exp, data=top, bias=negative)
        nisa.tensor_copy(dst=top, src=new)
        powers = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.activation(dst=powers, op=nl.exp, data=scores, bias=negative)
        more = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=more, op=nl.add, data=powers, axis=1)
        nisa.tensor_tensor(dst=sums, data1=sums, data2=shrink, op=nl.multiply)
        nisa.tensor_tensor(dst=sums, data1=sums, data2=more, op=nl.add)
        product = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.psum)
        for t in nl.affine_range(4):
            turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=powers[:, t * 128 : (t + 1) * 128])
            left = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=left, src=turned)
            value = nl.ndarray((128, D), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(dst=value, src=v[0:128, j * 4 + t, 0:D])
            nisa.nc_matmul(dst=product, stationary=left, moving=value)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=shrink)
        nisa.tensor_tensor(dst=total, data1=total, data2=product, op=nl.add)
    result = nl.ndarray((128, D + 2), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result[:, 0:D], src=total)
    nisa.tensor_copy(dst=result[:, D : D + 1], src=sums)
    nisa.tensor_copy(dst=result[:, D + 1 : D + 2], src=top)
    nisa.dma_copy(dst=out, src=result)
    return out
