import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    planes, J, K = x.shape
    out = nl.ndarray((planes, K, J), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(planes):
        for j in nl.affine_range(J // 128):
            for k in nl.affine_range(K // 128):
                tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=x[i, j * 128 : (j + 1) * 128, k * 128 : (k + 1) * 128])
                turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
                nisa.nc_transpose(dst=turned, data=tile)
                result = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=result, src=turned)
                nisa.dma_copy(
                    dst=out[i, k * 128 : (k + 1) * 128, j * 128 : (j + 1) * 128], src=result
                )
    return out
