# workload: trainium:maxpool-514x1026-k3
# Windows in bands of rows: their height and width, the order of the axes, what lies in PSUM.
import nki
import nki.isa as nisa
import nki.language as nl

BAND = tune(4, 1, 2)  # rows of a partition
WIDTH = tune(256, 64, 128, 512, 1024)  # columns at a time
LOADS = tune(1, 2, 3)  # transfers that load a tile
STORES = tune(1, 2, 4)  # transfers that store one
CHUNK = tune(1, 2, 4)  # rows of one instruction
ROWS_FIRST = tune(0, 1)  # which axis is reduced first
ALONG = tune(0, 1)  # 1: between the two comparisons along rows the values lie in PSUM
DOWN = tune(0, 1)  # the same down columns
HALVES = tune(1, 2)  # instructions of one chunk
tune_require(STORES <= BAND and CHUNK <= BAND)
tune_require(ALONG + DOWN == 0 or CHUNK * WIDTH <= 512 * HALVES)


def place(rows, columns, in_psum):
    if in_psum:
        return nl.ndarray((128, rows, columns), dtype=nl.float32, buffer=nl.psum)
    return nl.ndarray((128, rows, columns), dtype=nl.float32, buffer=nl.sbuf)


def along(source, to, first, last):
    half = WIDTH // HALVES
    for h in nl.affine_range(HALVES):
        left, right = h * half, (h + 1) * half
        larger = place(last - first, half, ALONG)
        nisa.tensor_tensor(
            dst=larger,
            data1=source[:, first:last, left:right],
            data2=source[:, first:last, left + 1 : right + 1],
            op=nl.maximum,
        )
        nisa.tensor_tensor(
            dst=to[:, first:last, left:right],
            data1=larger,
            data2=source[:, first:last, left + 2 : right + 2],
            op=nl.maximum,
        )


def down(source, to, first, last, columns):
    half = columns // HALVES
    for h in nl.affine_range(HALVES):
        left, right = h * half, (h + 1) * half
        larger = place(last - first, half, DOWN and columns == WIDTH)
        nisa.tensor_tensor(
            dst=larger,
            data1=source[:, first:last, left:right],
            data2=source[:, first + 1 : last + 1, left:right],
            op=nl.maximum,
        )
        nisa.tensor_tensor(
            dst=to[:, first:last, left:right],
            data1=larger,
            data2=source[:, first + 2 : last + 2, left:right],
            op=nl.maximum,
        )


@nki.jit
def kernel(x, pool_size=3):
    H, W = x.shape
    rows, columns = H - 2, W - 2
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    deep, wide = BAND + 2, WIDTH + 2
    for b in nl.affine_range(rows // (128 * BAND)):
        top = b * 128 * BAND
        for c in nl.affine_range(columns // WIDTH):
            image = place(deep, wide, 0)
            step = (deep + LOADS - 1) // LOADS
            for s in range(LOADS):
                low, high = s * step, min(deep, (s + 1) * step)
                if low < high:
                    nisa.dma_copy(
                        dst=image[:, low:high, :],
                        src=x.ap(
                            pattern=[[BAND * W, 128], [W, high - low], [1, wide]],
                            offset=(top + low) * W + c * WIDTH,
                        ),
                    )
            result = place(BAND, WIDTH, 0)
            if ROWS_FIRST:
                across = place(deep, WIDTH, 0)
                for r in range((deep + CHUNK - 1) // CHUNK):
                    along(image, across, r * CHUNK, min(deep, (r + 1) * CHUNK))
                for r in range(BAND // CHUNK):
                    down(across, result, r * CHUNK, (r + 1) * CHUNK, WIDTH)
            else:
                highest = place(BAND, wide, 0)
                for r in range(BAND // CHUNK):
                    down(image, highest, r * CHUNK, (r + 1) * CHUNK, wide)
                for r in range(BAND // CHUNK):
                    along(highest, result, r * CHUNK, (r + 1) * CHUNK)
            count = BAND // STORES
            for s in nl.affine_range(STORES):
                nisa.dma_copy(
                    dst=out.ap(
                        pattern=[[BAND * columns, 128], [columns, count], [1, WIDTH]],
                        offset=(top + s * count) * columns + c * WIDTH,
                    ),
                    src=result[:, s * count : (s + 1) * count, :],
                )
    return out
