"""The published depthwise convolution steps, written for this project, column by column."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def step_0(img, filt):
    N, C, _, W = img.shape
    T = filt.shape[3]
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    images = nl.zeros((N, C // 128, nl.par_dim(128), W + T - 1), img.dtype)
    filters = nl.ndarray((C // 128, nl.par_dim(128), T), filt.dtype)
    results = nl.ndarray((N, C // 128, nl.par_dim(128), W), img.dtype)
    for c in nl.affine_range(C // 128):
        filters[c] = nl.load(filt[c * 128 : (c + 1) * 128, 0, 0, 0:T])
        for n in nl.affine_range(N):
            images[n, c, :, 1 : W + 1] = nl.load(img[n, c * 128 : (c + 1) * 128, 0, 0:W])
    for n in nl.affine_range(N):
        for c in nl.affine_range(C // 128):
            for w in nl.affine_range(W):
                taps = nl.multiply(images[n, c, :, w : w + T], filters[c, :, 0:T])
                results[n, c, :, w : w + 1] = nisa.tensor_reduce(
                    nl.add, taps, axis=[1], keepdims=True
                )
            nl.store(out[n, c * 128 : (c + 1) * 128, 0, 0:W], value=results[n, c])
    return out


@nki.jit
def step_3(img, filt):
    N, C, _, W = img.shape
    T = filt.shape[3]
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(N):
        for c in nl.affine_range(C // 128):
            image = nl.zeros((128, W + T - 1), img.dtype)
            taps_of = nl.ndarray((128, T), filt.dtype)
            result = nl.ndarray((128, W), img.dtype)
            image[:, 1 : W + 1] = nl.load(img[n, c * 128 : (c + 1) * 128, 0, 0:W])
            nisa.dma_copy(dst=taps_of[:, 0:T], src=filt[c * 128 : (c + 1) * 128, 0, 0, 0:T])
            for w in nl.affine_range(W):
                taps = nl.multiply(image[:, w : w + T], taps_of[:, 0:T])
                result[:, w : w + 1] = nisa.tensor_reduce(nl.add, taps, axis=[1], keepdims=True)
            nl.store(out[n, c * 128 : (c + 1) * 128, 0, 0:W], value=result)
    return out


@nki.jit
def step_4(img, filt):
    N, C, _, W = img.shape
    T = filt.shape[3]
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(N):
        for c in nl.affine_range(C // 128):
            image = nl.zeros((128, W + T - 1), img.dtype)
            taps_of = nl.ndarray((128, T), filt.dtype)
            image[:, 1 : W + 1] = nl.load(img[n, c * 128 : (c + 1) * 128, 0, 0:W])
            nisa.dma_copy(dst=taps_of[:, 0:T], src=filt[c * 128 : (c + 1) * 128, 0, 0, 0:T])
            for b in nl.affine_range(W // 512):
                block = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
                for w in nl.affine_range(512):
                    taps = nl.multiply(image[:, b * 512 + w : b * 512 + w + T], taps_of[:, 0:T])
                    block[:, w : w + 1] += nisa.tensor_reduce(nl.add, taps, axis=[1], keepdims=True)
                copied = nisa.tensor_copy(block, dtype=img.dtype, engine=nisa.vector_engine)
                nl.store(out[n, c * 128 : (c + 1) * 128, 0, b * 512 : (b + 1) * 512], value=copied)
    return out


@nki.jit
def step_5(img, filt):
    N, C, _, W = img.shape
    T = filt.shape[3]
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(C // 128):
        loaded = nl.load(filt[c * 128 : (c + 1) * 128, 0, 0, 0:T])
        taps_of = nl.ndarray((128, T), nl.float32, buffer=nl.psum)
        taps_of[:, 0:T] = nisa.tensor_copy(loaded)
        for n in nl.affine_range(N):
            image = nl.zeros((128, W + T - 1), img.dtype)
            result = nl.ndarray((128, W), img.dtype)
            image[:, 1 : W + 1] = nl.load(img[n, c * 128 : (c + 1) * 128, 0, 0:W])
            for w in nl.affine_range(W):
                taps = nl.multiply(image[:, w : w + T], taps_of[:, 0:T])
                result[:, w : w + 1] = nisa.tensor_reduce(nl.add, taps, axis=[1], keepdims=True)
            nl.store(out[n, c * 128 : (c + 1) * 128, 0, 0:W], value=result)
    return out


@nki.jit
def step_6(img, filt):
    N, C, _, W = img.shape
    T = filt.shape[3]
    out = nl.ndarray((N, C, 1, W), dtype=img.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(C // 128):
        loaded = nl.load(filt[c * 128 : (c + 1) * 128, 0, 0, 0:T])
        taps_of = nl.ndarray((128, T), nl.float32, buffer=nl.psum)
        taps_of[:, 0:T] = nisa.tensor_copy(loaded)
        for n in nl.affine_range(N):
            image = nl.zeros((128, W + T - 1), img.dtype)
            result = nl.ndarray((128, W), img.dtype)
            image[:, 1 : W + 1] = nl.load(img[n, c * 128 : (c + 1) * 128, 0, 0:W])
            for b in nl.affine_range(W // 64):
                for w in nl.affine_range(64):
                    first = b * 64 + w
                    taps = nl.multiply(image[:, first : first + T], taps_of[:, 0:T])
                    result[:, first : first + 1] = nisa.tensor_reduce(
                        nl.add, taps, axis=[1], keepdims=True
                    )
            nl.store(out[n, c * 128 : (c + 1) * 128, 0, 0:W], value=result)
    return out
