import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    planes, J, K = x.shape
    out = nl.ndarray((planes, K, J), dtype=x.dtype, buffer=nl.shared_hbm)
    # Each partition holds neighbouring rows, which are one long run in HBM, on both sides.
    rows = max(r for r in range(1, 5) if (J // 128) % r == 0)
    columns = max(c for c in range(1, 5) if (K // 128) % c == 0)
    for i in nl.affine_range(planes):
        for j in nl.affine_range(J // (128 * rows)):
            for k in nl.affine_range(K // (128 * columns)):
                wide, high = 128 * columns, 128 * rows
                tile = nl.ndarray((128, rows, wide), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=tile,
                    src=x.ap(
                        pattern=[[rows * K, 128], [K, rows], [1, wide]],
                        offset=(i * J + j * high) * K + k * wide,
                    ),
                )
                result = nl.ndarray((128, columns, high), dtype=x.dtype, buffer=nl.sbuf)
                for c in nl.affine_range(columns):
                    turned = nl.ndarray((128, high), dtype=x.dtype, buffer=nl.psum)
                    for r in nl.affine_range(rows):
                        nisa.nc_transpose(dst=turned[:, r::rows], data=tile[:, r, c::columns])
                    nisa.tensor_copy(dst=result[:, c, :], src=turned)
                nisa.dma_copy(
                    dst=out.ap(
                        pattern=[[columns * J, 128], [J, columns], [1, high]],
                        offset=(i * K + k * wide) * J + j * high,
                    ),
                    src=result,
                )
    return out
