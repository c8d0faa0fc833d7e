# workload: trainium:cumsum-512x1024
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

PAR = tune(128, 64, 32)
STEP = tune(256, 1024, 512, 128, 64)
IN = tune(1, 2, 4, 8)
BACK = tune(1, 2, 4, 8)
ADDED = tune(0, 1)
ZERO = tune(0, 1)
GROUP = tune(1, 2, 4)
tune_require(GROUP * PAR <= 512 and 1024 % STEP == 0)


@nki.jit
def kernel(x, axis=1):
    r, c = x.shape
    y = nl.ndarray((r, c), dtype=x.dtype, buffer=nl.shared_hbm)
    wi, wb = c // IN, c // BACK
    if ZERO:
        ones0 = nl.ones((PAR, STEP), dtype=nl.float32)
    for g in nl.affine_range(r // (PAR * GROUP)):
        tiles = nl.ndarray((PAR, GROUP, c), dtype=nl.float32, buffer=nl.sbuf)
        for k in range(GROUP):
            lo = (g * GROUP + k) * PAR
            for q in range(IN):
                tiles[:, k, q * wi : (q + 1) * wi] = nl.load(x[lo : lo + PAR, q * wi : (q + 1) * wi])
        for k in range(GROUP):
            lo = (g * GROUP + k) * PAR
            o = nl.ndarray((PAR, c), dtype=nl.float32, buffer=nl.sbuf)
            if ZERO:
                ones = ones0
            else:
                ones = nl.ones((PAR, STEP), dtype=nl.float32)
            for b in range(c // STEP):
                cols = slice(b * STEP, (b + 1) * STEP)
                if ADDED or b == 0:
                    s = nisa.tensor_tensor_scan(ones, tiles[:, k, cols], initial=0.0, op0=nl.multiply, op1=nl.add)
                    if b > 0:
                        o[:, cols] = nl.add(s, o[:, b * STEP - 1 : b * STEP])
                    else:
                        o[:, cols] = nl.copy(s)
                else:
                    o[:, cols] = nisa.tensor_tensor_scan(
                        ones, tiles[:, k, cols], initial=o[:, b * STEP - 1 : b * STEP], op0=nl.multiply, op1=nl.add
                    )
            for q in range(BACK):
                nl.store(y[lo : lo + PAR, q * wb : (q + 1) * wb], value=o[:, q * wb : (q + 1) * wb])
    return y
