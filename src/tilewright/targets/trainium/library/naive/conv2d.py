import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(img, filt):
    N, C, H, W = img.shape
    filters = filt.shape[0]
    rows = max(r for r in range(1, H + 1) if H % r == 0 and r * W <= 512)
    out = nl.ndarray((N, filters, H, W), dtype=img.dtype, buffer=nl.shared_hbm)
    turned = nl.ndarray((C, 9, filters), dtype=nl.float32, buffer=nl.hbm)
    for f in nl.affine_range(filters // 128):
        for c in nl.affine_range(C // 128):
            for t in nl.affine_range(9):
                block = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=block,
                    src=filt[f * 128 : (f + 1) * 128, c * 128 : (c + 1) * 128, t // 3, t % 3],
                )
                product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_transpose(dst=product, data=block)
                kept = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=kept, src=product)
                nisa.dma_copy(
                    dst=turned[c * 128 : (c + 1) * 128, t, f * 128 : (f + 1) * 128], src=kept
                )
    for n in nl.affine_range(N):
        for f in nl.affine_range(filters // 128):
            for r in nl.affine_range(H // rows):
                total = nl.ndarray((128, rows, W), dtype=nl.float32, buffer=nl.sbuf)
                nisa.memset(dst=total, value=0.0)
                for c in nl.affine_range(C // 128):
                    for y in nl.affine_range(3):
                        image = nl.ndarray((128, rows, W + 2), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.memset(dst=image, value=0.0)
                        top = max(0, 1 - y - r * rows)
                        bottom = min(rows, H + 1 - y - r * rows)
                        source = r * rows + y - 1
                        nisa.dma_copy(
                            dst=image[:, top:bottom, 1 : W + 1],
                            src=img[
                                n, c * 128 : (c + 1) * 128, source + top : source + bottom, 0:W
                            ],
                        )
                        weights = nl.ndarray((128, 3, 128), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.dma_copy(
                            dst=weights,
                            src=turned[
                                c * 128 : (c + 1) * 128, y * 3 : y * 3 + 3, f * 128 : (f + 1) * 128
                            ],
                        )
                        product = nl.ndarray((128, rows, W), dtype=nl.float32, buffer=nl.psum)
                        for x in nl.affine_range(3):
                            nisa.nc_matmul(
                                dst=product, stationary=weights[:, x, :], moving=image[:, :, x : x + W]
                            )
                        nisa.tensor_tensor(dst=total, data1=total, data2=product, op=nl.add)
                nisa.dma_copy(
                    dst=out[n, f * 128 : (f + 1) * 128, r * rows : (r + 1) * rows, 0:W], src=total
                )
    return out
