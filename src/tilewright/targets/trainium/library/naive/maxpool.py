import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, pool_size=3):
    H, W = x.shape
    rows, columns = H - pool_size + 1, W - pool_size + 1
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    width = min(columns, 2046)
    for r in nl.affine_range((rows + 127) // 128):
        height = min(128, rows - r * 128)
        for c in nl.affine_range((columns + width - 1) // width):
            size = min(width, columns - c * width)
            wide = size + pool_size - 1
            window = nl.ndarray((height, pool_size, wide), dtype=x.dtype, buffer=nl.sbuf)
            first = r * 128 * W + c * width
            nisa.dma_copy(
                dst=window,
                src=x.ap(pattern=[[W, height], [W, pool_size], [1, wide]], offset=first),
            )
            result = nl.ndarray((height, size), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_reduce(
                dst=result,
                op=nl.maximum,
                data=window.ap(
                    pattern=[
                        [pool_size * wide, height],
                        [1, size],
                        [wide, pool_size],
                        [1, pool_size],
                    ]
                ),
                axis=[2, 3],
            )
            nisa.dma_copy(
                dst=out[r * 128 : r * 128 + height, c * width : c * width + size], src=result
            )
    return out
