import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, pool_size=3):
    H, W = x.shape
    P = pool_size
    rows, columns = H - P + 1, W - P + 1
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    # Each partition holds a band of rows and the first rows of the next band, so that windows are
    # compared along free axes: first along rows, then down columns.
    band = max(1, min(32, (rows + 127) // 128))
    width = min(columns, 256)
    chunk = 2048 // width
    for b in nl.affine_range((rows + 128 * band - 1) // (128 * band)):
        top = b * 128 * band
        full = min(128, (rows - top) // band)
        left_over = 0 if full == 128 else rows - top - full * band
        partitions = full + (1 if left_over else 0)
        for c in nl.affine_range((columns + width - 1) // width):
            size = min(width, columns - c * width)
            wide, first = size + P - 1, c * width
            image = nl.ndarray((partitions, band + P - 1, wide), dtype=x.dtype, buffer=nl.sbuf)
            if full:
                nisa.dma_copy(
                    dst=image[0:full],
                    src=x.ap(
                        pattern=[[band * W, full], [W, band + P - 1], [1, wide]],
                        offset=top * W + first,
                    ),
                )
            if left_over:
                nisa.dma_copy(
                    dst=image[full : full + 1, 0 : left_over + P - 1, :],
                    src=x.ap(
                        pattern=[[W, 1], [W, left_over + P - 1], [1, wide]],
                        offset=(top + full * band) * W + first,
                    ),
                )
            across = nl.ndarray((partitions, band + P - 1, size), dtype=x.dtype, buffer=nl.sbuf)
            result = nl.ndarray((partitions, band, size), dtype=x.dtype, buffer=nl.sbuf)
            # Between two comparisons the values are kept in PSUM: an operand there halves the cost.
            for r in nl.affine_range((band + P - 1 + chunk - 1) // chunk):
                start, stop = r * chunk, min(band + P - 1, (r + 1) * chunk)
                larger = nl.ndarray((partitions, stop - start, size), dtype=x.dtype, buffer=nl.psum)
                nisa.tensor_tensor(
                    dst=across[:, start:stop, :] if P == 2 else larger,
                    data1=image[:, start:stop, 0:size],
                    data2=image[:, start:stop, 1 : size + 1] if P > 1 else image[:, start:stop, 0:size],
                    op=nl.maximum,
                )
                for p in range(2, P):
                    nisa.tensor_tensor(
                        dst=across[:, start:stop, :] if p == P - 1 else larger,
                        data1=larger,
                        data2=image[:, start:stop, p : p + size],
                        op=nl.maximum,
                    )
                if P == 1:
                    nisa.tensor_copy(dst=across[:, start:stop, :], src=larger)
            for r in nl.affine_range((band + chunk - 1) // chunk):
                start, stop = r * chunk, min(band, (r + 1) * chunk)
                larger = nl.ndarray((partitions, stop - start, size), dtype=x.dtype, buffer=nl.psum)
                below = 1 if P > 1 else 0
                nisa.tensor_tensor(
                    dst=result[:, start:stop, :] if P <= 2 else larger,
                    data1=across[:, start:stop, :],
                    data2=across[:, start + below : stop + below, :],
                    op=nl.maximum,
                )
                for p in range(2, P):
                    nisa.tensor_tensor(
                        dst=result[:, start:stop, :] if p == P - 1 else larger,
                        data1=larger,
                        data2=across[:, start + p : stop + p, :],
                        op=nl.maximum,
                    )
            if full:
                nisa.dma_copy(
                    dst=out.ap(
                        pattern=[[band * columns, full], [columns, band], [1, size]],
                        offset=top * columns + first,
                    ),
                    src=result[0:full],
                )
            if left_over:
                nisa.dma_copy(
                    dst=out.ap(
                        pattern=[[columns, 1], [columns, left_over], [1, size]],
                        offset=(top + full * band) * columns + first,
                    ),
                    src=result[full : full + 1, 0:left_over, :],
                )
    return out
