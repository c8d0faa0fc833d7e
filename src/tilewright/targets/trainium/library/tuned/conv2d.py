import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(img, filt):
    N, C, H, W = img.shape
    filters = filt.shape[0]
    rows = max(r for r in range(1, H + 1) if H % r == 0 and r * W <= 512)
    group = max(g for g in range(1, 5) if (H // rows) % g == 0)
    out = nl.ndarray((N, filters, H, W), dtype=img.dtype, buffer=nl.shared_hbm)
    # Filters are transposed once: input channels on the partitions, one slice for each tap.
    weights = []
    for c in nl.affine_range(C // 128):
        tap_of = nl.ndarray((128, 9, filters), dtype=nl.bfloat16, buffer=nl.sbuf)
        for f in nl.affine_range(filters // 128):
            given = nl.ndarray((128, 128, 9), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=given,
                src=filt.ap(
                    pattern=[[C * 9, 128], [9, 128], [1, 9]], offset=(f * 128 * C + c * 128) * 9
                ),
            )
            for t in nl.affine_range(9):
                turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_transpose(dst=turned, data=given[:, :, t])
                nisa.tensor_copy(dst=tap_of[:, t, f * 128 : (f + 1) * 128], src=turned)
        weights.append(tap_of)
    for n in nl.affine_range(N):
        images = []
        for c in nl.affine_range(C // 128):
            image = nl.ndarray((128, H + 2, W + 2), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.memset(dst=image[:, 0, :], value=0.0)
            nisa.memset(dst=image[:, H + 1, :], value=0.0)
            nisa.memset(dst=image[:, 1 : H + 1, 0:1], value=0.0)
            nisa.memset(dst=image[:, 1 : H + 1, W + 1 : W + 2], value=0.0)
            for r in nl.affine_range(H // (rows * group)):
                first, last = r * rows * group, (r + 1) * rows * group
                nisa.dma_copy(
                    dst=image[:, first + 1 : last + 1, 1 : W + 1],
                    src=img[n, c * 128 : (c + 1) * 128, first:last, 0:W],
                )
            images.append(image)
        for r in nl.affine_range(H // (rows * group)):
            for f in nl.affine_range(filters // 128):
                result = nl.ndarray((128, rows * group, W), dtype=nl.float32, buffer=nl.sbuf)
                for g in nl.affine_range(group):
                    top = (r * group + g) * rows
                    total = nl.ndarray((128, rows, W), dtype=nl.float32, buffer=nl.psum)
                    for c in nl.affine_range(C // 128):
                        for t in nl.affine_range(9):
                            y, x = t // 3, t % 3
                            nisa.nc_matmul(
                                dst=total,
                                stationary=weights[c][:, t, f * 128 : (f + 1) * 128],
                                moving=images[c][:, top + y : top + y + rows, x : x + W],
                            )
                    nisa.tensor_copy(dst=result[:, g * rows : (g + 1) * rows, :], src=total)
                first, last = r * rows * group, (r + 1) * rows * group
                nisa.dma_copy(
                    dst=out[n, f * 128 : (f + 1) * 128, first:last, 0:W], src=result
                )
    return out
