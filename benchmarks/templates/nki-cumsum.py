# workload: trainium:cumsum-256x4096
# Running sums: pieces of rows one after the other, or each alone and its start added later.
import nki
import nki.isa as nisa
import nki.language as nl

LOAD = tune(1024, 128, 256, 512, 2048, 4096)  # columns of one transfer into SBUF
STORE = tune(1024, 128, 256, 512, 2048, 4096)  # columns of one transfer out of it
WIDTH = tune(512, 128, 256, 1024, 2048, 4096)  # columns of one scan
APART = tune(0, 1, 2)  # pieces are summed apart; 1: DVE adds what is before, 2: ACT does
PSUM = tune(0, 1)  # 1: scans write to PSUM
ONES = tune(0, 1)  # 1: the factor of 1 lies in PSUM
TOGETHER = tune(0, 1)  # 1: the pieces of all rows in turn
COPY = tune(0, 1)  # 1: ACT copies sums out of PSUM, not DVE
tune_require(STORE % WIDTH == 0 and LOAD % WIDTH == 0)
tune_require(PSUM + ONES == 0 or WIDTH <= 512)
tune_require(PSUM == 1 or COPY == 0)


def place(in_psum):
    if in_psum:
        return nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.psum)
    return nl.ndarray((128, WIDTH), dtype=nl.float32, buffer=nl.sbuf)


def load(x, r):
    rows = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for c in nl.affine_range(x.shape[1] // LOAD):
        nisa.dma_copy(
            dst=rows[:, c * LOAD : (c + 1) * LOAD],
            src=x[r * 128 : (r + 1) * 128, c * LOAD : (c + 1) * LOAD],
        )
    return rows


def piece(p, ones, rows, result):
    to = result[:, p * WIDTH : (p + 1) * WIDTH]
    data = rows[:, p * WIDTH : (p + 1) * WIDTH]
    alone = APART > 0 or p == 0
    initial = 0.0 if alone else result[:, p * WIDTH - 1 : p * WIDTH]
    moved = APART > 0 and p > 0
    sums = place(PSUM) if PSUM or moved else to
    nisa.tensor_tensor_scan(
        dst=sums, data0=ones, data1=data, initial=initial, op0=nl.multiply, op1=nl.add
    )
    if moved:
        before = result[:, p * WIDTH - 1 : p * WIDTH]
        if APART == 2:
            nisa.activation(dst=to, op=nl.copy, data=sums, bias=before)
        else:
            nisa.tensor_scalar(dst=to, data=sums, op0=nl.add, operand0=before)
    elif PSUM:
        if COPY:
            nisa.activation(dst=to, op=nl.copy, data=sums)
        else:
            nisa.tensor_copy(dst=to, src=sums)


def store(out, result, r):
    for c in nl.affine_range(out.shape[1] // STORE):
        nisa.dma_copy(
            dst=out[r * 128 : (r + 1) * 128, c * STORE : (c + 1) * STORE],
            src=result[:, c * STORE : (c + 1) * STORE],
        )


@nki.jit
def kernel(x):
    R, C = x.shape
    out = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    ones = place(ONES)
    nisa.memset(dst=ones, value=1.0)
    if TOGETHER:
        loaded = []
        results = []
        for r in range(R // 128):
            loaded.append(load(x, r))
            results.append(nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf))
        for p in range(C // WIDTH):
            for r in range(R // 128):
                piece(p, ones, loaded[r], results[r])
        for r in range(R // 128):
            store(out, results[r], r)
    else:
        for r in range(R // 128):
            rows = load(x, r)
            result = nl.ndarray((128, C), dtype=nl.float32, buffer=nl.sbuf)
            for p in range(C // WIDTH):
                piece(p, ones, rows, result)
            store(out, result, r)
    return out
