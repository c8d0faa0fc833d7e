"""The published gemm steps, written for this project; names say how tiles and loads are grouped."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def step_0(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 512):
            acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                b = nl.load(rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                acc += nisa.nc_matmul(a, b)
            result = nl.copy(acc, dtype=out.dtype)
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], value=result)
    return out


@nki.jit
def step_1(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 1024):
            acc0 = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            acc1 = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                b0 = nl.load(rhs[k * 128 : (k + 1) * 128, n * 1024 : n * 1024 + 512])
                b1 = nl.load(rhs[k * 128 : (k + 1) * 128, n * 1024 + 512 : n * 1024 + 1024])
                acc0 += nisa.nc_matmul(a, b0)
                acc1 += nisa.nc_matmul(a, b1)
            result0 = nl.copy(acc0, dtype=out.dtype)
            result1 = nl.copy(acc1, dtype=out.dtype)
            nl.store(out[m * 128 : (m + 1) * 128, n * 1024 : n * 1024 + 512], value=result0)
            nl.store(out[m * 128 : (m + 1) * 128, n * 1024 + 512 : n * 1024 + 1024], value=result1)
    return out


@nki.jit
def step_2(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 256):
        for n in nl.affine_range(N // 1024):
            acc = nl.zeros((2, 2, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a0 = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 256 : m * 256 + 128])
                a1 = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 256 + 128 : m * 256 + 256])
                b0 = nl.load(rhs[k * 128 : (k + 1) * 128, n * 1024 : n * 1024 + 512])
                b1 = nl.load(rhs[k * 128 : (k + 1) * 128, n * 1024 + 512 : n * 1024 + 1024])
                acc[0, 0] += nisa.nc_matmul(a0, b0)
                acc[0, 1] += nisa.nc_matmul(a0, b1)
                acc[1, 0] += nisa.nc_matmul(a1, b0)
                acc[1, 1] += nisa.nc_matmul(a1, b1)
            for i in nl.affine_range(2):
                for j in nl.affine_range(2):
                    row, column = m * 256 + i * 128, n * 1024 + j * 512
                    result = nl.copy(acc[i, j], dtype=out.dtype)
                    nl.store(out[row : row + 128, column : column + 512], value=result)
    return out


@nki.jit
def step_3(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 512):
        for n in nl.affine_range(N // 1024):
            acc = nl.zeros((4, 2, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.ndarray((4, nl.par_dim(128), 128), lhsT.dtype)
                b = nl.ndarray((2, nl.par_dim(128), 512), rhs.dtype)
                for i in nl.affine_range(4):
                    column = m * 512 + i * 128
                    a[i] = nl.load(lhsT[k * 128 : (k + 1) * 128, column : column + 128])
                for j in nl.affine_range(2):
                    column = n * 1024 + j * 512
                    b[j] = nl.load(rhs[k * 128 : (k + 1) * 128, column : column + 512])
                for i in nl.affine_range(4):
                    for j in nl.affine_range(2):
                        acc[i, j] += nisa.nc_matmul(a[i], b[j])
            for i in nl.affine_range(4):
                for j in nl.affine_range(2):
                    row, column = m * 512 + i * 128, n * 1024 + j * 512
                    result = nl.copy(acc[i, j], dtype=out.dtype)
                    nl.store(out[row : row + 128, column : column + 512], value=result)
    return out


@nki.jit
def step_4(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 512):
        for n in nl.affine_range(N // 1024):
            acc = nl.zeros((4, 2, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.ndarray((2, nl.par_dim(128), 256), lhsT.dtype)
                b = nl.ndarray((2, nl.par_dim(128), 512), rhs.dtype)
                for i in nl.affine_range(2):
                    column = m * 512 + i * 256
                    a[i] = nl.load(lhsT[k * 128 : (k + 1) * 128, column : column + 256])
                for j in nl.affine_range(2):
                    column = n * 1024 + j * 512
                    b[j] = nl.load(rhs[k * 128 : (k + 1) * 128, column : column + 512])
                for i in nl.affine_range(4):
                    for j in nl.affine_range(2):
                        half = a[i // 2, :, (i % 2) * 128 : (i % 2) * 128 + 128]
                        acc[i, j] += nisa.nc_matmul(half, b[j])
            for i in nl.affine_range(4):
                for j in nl.affine_range(2):
                    row, column = m * 512 + i * 128, n * 1024 + j * 512
                    result = nl.copy(acc[i, j], dtype=out.dtype)
                    nl.store(out[row : row + 128, column : column + 512], value=result)
    return out


@nki.jit
def step_5(lhsT, rhs):
    K, M = lhsT.shape
    N = rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 512):
        for n in nl.affine_range(N // 1024):
            acc = nl.zeros((4, 2, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 512 : (m + 1) * 512])
                b = nl.load(rhs[k * 128 : (k + 1) * 128, n * 1024 : (n + 1) * 1024])
                for i in nl.affine_range(4):
                    for j in nl.affine_range(2):
                        acc[i, j] += nisa.nc_matmul(
                            a[:, i * 128 : (i + 1) * 128], b[:, j * 512 : (j + 1) * 512]
                        )
            for i in nl.affine_range(4):
                for j in nl.affine_range(2):
                    row, column = m * 512 + i * 128, n * 1024 + j * 512
                    result = nisa.tensor_copy(acc[i, j], dtype=out.dtype, engine=nisa.vector_engine)
                    nl.store(out[row : row + 128, column : column + 512], value=result)
    return out
