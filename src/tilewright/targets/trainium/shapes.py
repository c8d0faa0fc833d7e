"""The registered workloads: from names like `rmsnorm-512x4096` to arrays, constants and operations.

Arguments are in the order of a kernel's parameters, followed by the outputs in the order in which a
kernel returns them. Shapes and tolerances are those of the public harnesses for the fifteen kernels
in the Autocomp paper. Any other sizes can be used by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.parts.size_limit import SIZE, check_size_limit

PARTITIONS = 128
MOST_BYTES = 3 << 30
"""Maximum total size of a workload's arrays."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload.

    `sizes` is the pattern of its names, `divisors` gives the number of which each size must be a
    multiple, and `text` describes the computation in one line. `arrays` computes the arguments from
    the sizes, and `operations` the useful multiply-adds. `constants` are further parameters of a
    kernel, which are known when it is traced. `details` complete the text, and `narrow` says which
    values may have fewer digits than float32; both are for those who write kernels.
    """

    sizes: str
    divisors: tuple[int, ...]
    text: str
    arrays: Callable[..., Sequence[Argument]]
    operations: Callable[..., int]
    constants: Callable[..., Mapping[str, object]] = lambda *_: {}
    details: str = ""
    narrow: str = "all values have the errors of float32"

    @property
    def computation(self) -> str:
        """What is computed, and how exactly."""
        parts = [self.text, self.details, f"precision: {self.narrow}"]
        return ". ".join(part for part in parts if part) + "."


_PRODUCTS = "operands of products may be bfloat16"
_WEIGHTS = "weights and values may be bfloat16 where they are operands of products"


def _given(name: str, *shape: int, dtype: str = "float32") -> Argument:
    return Argument(name, shape, dtype, "input")


def _written(name: str, *shape: int, dtype: str = "float32") -> Argument:
    return Argument(name, shape, dtype, "output")


def _sd_attention(rows: int, depth: int) -> Sequence[Argument]:
    inputs = [_given(name, rows, depth) for name in "qkv"]
    return [*inputs, _written("out", rows, depth)]


def _causal_attention(rows: int, depth: int, *heads: int) -> Sequence[Argument]:
    column = "bfloat16" if heads else "float32"
    half = "bfloat16"
    return [
        _given("q", *heads, rows, depth, dtype=half),
        _given("k", *heads, depth, rows, dtype=half),
        _given("v", *heads, rows, depth, dtype=half),
        _written("o", *heads, rows, depth, dtype=half),
        _written("l", *heads, rows, 1, dtype=column),
        _written("m", *heads, rows, 1, dtype=column),
    ]


_TYPES: Mapping[str, object] = {"kernel_dtype": "bfloat16", "acc_type": "float32"}

KINDS: Mapping[str, Kind] = {
    "rmsnorm": Kind(
        "RxC",
        (PARTITIONS, 1),
        "out = a / sqrt(mean of a^2 over each row) * g, without an epsilon",
        lambda r, c: [_given("a", r, c), _given("g", c), _written("out", r, c)],
        lambda r, c: 3 * r * c,
    ),
    "layernorm": Kind(
        "RxC",
        (PARTITIONS, 1),
        "out = (x - mean) / sqrt(variance + 1e-5) * gamma + beta, over each row",
        lambda r, c: [
            _given("input_tensor", r, c),
            _given("gamma_vector", c),
            _given("beta_vector", c),
            _written("out", r, c),
        ],
        lambda r, c: 5 * r * c,
        lambda r, c: {"epsilon": 1e-5},
    ),
    "gemm": Kind(
        "MxNxK",
        (PARTITIONS, 512, PARTITIONS),
        "out[M][N] = lhsT[K][M].T @ rhs[K][N], bfloat16 in and out",
        lambda m, n, k: [
            _given("lhsT", k, m, dtype="bfloat16"),
            _given("rhs", k, n, dtype="bfloat16"),
            _written("out", m, n, dtype="bfloat16"),
        ],
        lambda m, n, k: m * n * k,
        narrow="products are summed in float32",
    ),
    "mamba": Kind(
        "BxCxSxL",
        (1, PARTITIONS, 1, 1),
        "selective scan of C channels with S states over L steps: "
        "h[t] = exp(delta[t] A) h[t-1] + delta[t] u[t] B[t], out[t] = sum of h[t] C[t] over S",
        lambda b, c, s, n: [
            _given("delta", b, c, n),
            _given("u", b, c, n),
            _given("A", c, s),
            _given("B", b, s, n),
            _given("C", b, s, n),
            _written("out", b, c, n),
        ],
        lambda b, c, s, n: 5 * b * c * s * n,
    ),
    "attention": Kind(
        "LxD",
        (512, PARTITIONS),
        "out = softmax(q.T k) v.T of q, k, v[D][L], without scale",
        lambda n, d: [*(_given(x, d, n) for x in "qkv"), _written("out", n, d)],
        lambda n, d: 2 * n * n * d,
        narrow=f"{_WEIGHTS}, queries and keys tfloat32",
    ),
    "sd_attention": Kind(
        "LxD",
        (512, 1),
        "out = softmax(0.125 q k.T) v",
        _sd_attention,
        lambda n, d: 2 * n * n * d,
        lambda n, d: {"use_causal_mask": False, "mixed_precision": True},
        narrow=_PRODUCTS,
    ),
    "cumsum": Kind(
        "RxC",
        (PARTITIONS, 1),
        "running sums along each row",
        lambda r, c: [_given("x", r, c), _written("out", r, c)],
        lambda r, c: r * c,
        lambda r, c: {"axis": 1},
    ),
    "transpose": Kind(
        "IxJxK",
        (1, PARTITIONS, PARTITIONS),
        "out[i][k][j] = x[i][j][k]",
        lambda i, j, k: [_given("x", i, j, k), _written("out", i, k, j)],
        lambda i, j, k: i * j * k,
        lambda i, j, k: {"dim": 1},
    ),
    "maxpool": Kind(
        "HxW-kP",
        (1, 1, 1),
        "largest of each PxP window, stride 1, no padding",
        lambda h, w, p: [_given("x", h, w), _written("out", h - p + 1, w - p + 1)],
        lambda h, w, p: (h - p + 1) * (w - p + 1) * 2 * (p - 1),
        lambda h, w, p: {"pool_size": p},
    ),
    "rope": Kind(
        "DxL",
        (2, 1),
        "rotary embedding: out[:D/2] = e cos - o sin, out[D/2:] = o cos + e sin of halves e, o",
        lambda d, n: [
            _given("x_in", d, n),
            _given("cos", d // 2, n),
            _given("sin", d // 2, n),
            _written("out", d, n),
        ],
        lambda d, n: 2 * d * n,
        lambda d, n: {"lnc_shard": False, "first_second_half_impl": True},
    ),
    "conv1d": Kind(
        "NxCxW-kT",
        (1, PARTITIONS, 1, 1),
        "depthwise convolution of T taps along W, zeros beside the rows",
        lambda n, c, w, t: [
            _given("img", n, c, 1, w),
            _given("filt", c, 1, 1, t),
            _written("out", n, c, 1, w),
        ],
        lambda n, c, w, t: n * c * w * t,
        lambda n, c, w, t: {"padding": ((0, 0), ((t - 1) // 2, t // 2))},
        details="out[n][c][0][x] = sum of img[n][c][0][x + j - (T - 1) // 2] filt[c][0][0][j] "
        "over j",
    ),
    "conv2d": Kind(
        "NxCxHxWxK-k3",
        (1, PARTITIONS, 4, 1, PARTITIONS),
        "3x3 convolution of C channels to K filters, zeros around the images",
        lambda n, c, h, w, k: [
            _given("img", n, c, h, w),
            _given("filt", k, c, 3, 3),
            _written("out", n, k, h, w),
        ],
        lambda n, c, h, w, k: 9 * n * c * h * w * k,
        lambda *_: {
            "padding": ((1, 1), (1, 1)),
            "stride": [1, 1],
            "rhs_dilation": [1, 1],
            "in_perm": [0, 1, 2, 3],
            "kern_perm": [0, 1, 2, 3],
            "out_perm": [0, 1, 2, 3],
        },
        details="out[n][k][y][x] = sum of img[n][c][y + i - 1][x + j - 1] filt[k][c][i][j] "
        "over c, i, j",
        narrow=_PRODUCTS,
    ),
    "causal_attention": Kind(
        "LxD",
        (512, PARTITIONS),
        "o = exp(S - m) v, l = m + log of row sums, m = row maxima, of S = q k below the diagonal",
        lambda n, d: _causal_attention(n, d),
        lambda n, d: n * (n + 1) * d,
        lambda n, d: {**_TYPES, "seq_len": n, "d_head": d},
        narrow=_WEIGHTS,
    ),
    "multihead_attention": Kind(
        "HxLxD",
        (1, 512, PARTITIONS),
        "causal_attention for each of H heads",
        lambda h, n, d: _causal_attention(n, d, h),
        lambda h, n, d: h * n * (n + 1) * d,
        lambda h, n, d: {**_TYPES, "num_heads": h, "seq_len": n, "d_head": d},
        narrow=_WEIGHTS,
    ),
    "attention_tile": Kind(
        "LxD-qI",
        (512, PARTITIONS, 1),
        "one query tile against L keys, added to an earlier result: columns o, l, m",
        lambda n, d, i: [
            _given("q", d, n),
            _given("k", d, n),
            _given("v", PARTITIONS, n // PARTITIONS, d),
            _given("olm_prev", PARTITIONS, d + 2),
            _given("tile_mask", PARTITIONS, n, dtype="uint8"),
            _written("olm", PARTITIONS, d + 2, dtype="bfloat16"),
        ],
        lambda n, d, i: 2 * PARTITIONS * d * min(n, PARTITIONS * (i + 1)),
        lambda n, d, i: {
            **_TYPES,
            "q_tile_idx": i,
            "Q_TILE_SIZE": PARTITIONS,
            "LARGE_KV_TILE_SIZE": n,
            "B_P_SIZE": PARTITIONS,
            "B_F_SIZE": 512,
            "B_D_SIZE": d,
        },
        details="the queries are columns 128 I to 128 I + 127 of q, key j has the values "
        "v[j % 128][j // 128], and S[i][j] is left out where tile_mask[i][j] is 0, as it is for "
        "every j >= 128 (I + 1); m = maximum of m_prev and the row's largest S, "
        "a = exp(m_prev - m), o = a o_prev + exp(S - m) v, l = a l_prev + sum of exp(S - m)",
        narrow=_PRODUCTS,
    ),
}

REGISTERED: Mapping[str, str] = {
    "rmsnorm-512x4096": "tutorial kernel",
    "layernorm-4096x8192": "tutorial kernel",
    "gemm-4096x8192x8192": "tutorial kernel: 5.99 ms of products",
    "mamba-1x256x16x2048": "tutorial kernel",
    "attention-4096x128": "tutorial kernel: one head, not causal",
    "sd_attention-4096x64": "tutorial kernel: Stable Diffusion's attention",
    "cumsum-2048x2048": "advanced kernel",
    "transpose-512x512x512": "advanced kernel: the last two axes are exchanged",
    "maxpool-4096x4096-k3": "advanced kernel",
    "rope-128x4096": "advanced kernel",
    "conv1d-8x512x2048-k3": "advanced kernel, depthwise",
    "conv2d-16x128x128x128x512-k3": "advanced kernel",
    "causal_attention-2048x128": "advanced kernel, with the rows' maxima and logarithms of sums",
    "attention_tile-16384x128-q127": "advanced kernel: the last query tile of a long context",
    "multihead_attention-8x2048x128": "advanced kernel",
}
"""The names that `tilewright workloads` lists."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of workload and its sizes, in the order of its pattern."""

    kind: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Canonical name, without the target."""
        sizes = iter(self.sizes)
        pattern = re.sub("[A-Z]", lambda _: str(next(sizes)), KINDS[self.kind].sizes)
        return f"{self.kind}-{pattern}"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Inputs in the order of a kernel's parameters, then outputs in the order returned."""
        return tuple(KINDS[self.kind].arrays(*self.sizes))

    @property
    def constants(self) -> Mapping[str, object]:
        """Further parameters of a kernel by name, known when it is traced."""
        return KINDS[self.kind].constants(*self.sizes)

    @property
    def contract(self) -> str:
        """How a kernel is called, and its results."""
        given = [a.name for a in self.arguments if a.is_given]
        fixed = [f"{name}={value!r}" for name, value in self.constants.items()]
        returned = ", ".join(a.name for a in self.arguments if a.is_written)
        return f"kernel({', '.join([*given, *fixed])}) returns {returned}"

    @property
    def operations(self) -> int:
        """Useful multiply-adds."""
        return KINDS[self.kind].operations(*self.sizes)

    def workload(self, target: str) -> Workload:
        """The workload record of these sizes."""
        return Workload(
            name=f"{target}:{self.name}",
            target=target,
            arguments=self.arguments,
            operations=self.operations,
            source=self.name,
        )


def parse_shape(spec: str) -> Shape:
    """The shape with this name.

    Raises `UnknownNameError` if no kind has this name, and `WorkloadError` if the sizes are
    malformed, do not fit partitions and tiles, or are too large.
    """
    kind_name = spec.partition("-")[0]
    kind = KINDS.get(kind_name)
    if kind is None:
        hint = "Patterns: " + ", ".join(f"{n}-{k.sizes}" for n, k in KINDS.items())
        raise UnknownNameError("trainium workload", spec, REGISTERED, f"{hint}.")
    letters = re.findall("[A-Z]", kind.sizes)
    check_size_limit(spec)
    match = re.fullmatch(f"{kind_name}-" + re.sub("[A-Z]", SIZE, kind.sizes), spec)
    if match is None:
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {kind_name}-{kind.sizes} with numbers, "
            f"for example {next(n for n in REGISTERED if n.startswith(kind_name + '-'))}."
        )
    shape = Shape(kind_name, tuple(int(size) for size in match.groups()))
    for letter, size, divisor in zip(letters, shape.sizes, kind.divisors, strict=True):
        least = 0 if letter == "I" and kind_name == "attention_tile" else 1
        if size < least or size % divisor:
            raise WorkloadError(
                f"workload {spec!r}: {letter} = {size} must be a positive multiple of {divisor}, "
                f"as tiles have {PARTITIONS} partitions."
                if divisor > 1
                else f"workload {spec!r}: {letter} = {size} must be positive."
            )
    _check_fit(spec, shape)
    return shape


def _check_fit(spec: str, shape: Shape) -> None:
    if shape.kind in ("attention", "causal_attention", "multihead_attention", "attention_tile"):
        depth = shape.sizes[-1 if shape.kind != "attention_tile" else 1]
        if depth != PARTITIONS:
            raise WorkloadError(f"workload {spec!r}: D = {depth} must be {PARTITIONS}.")
    if shape.kind == "sd_attention" and shape.sizes[1] > PARTITIONS:
        raise WorkloadError(f"workload {spec!r}: D = {shape.sizes[1]} must be <= {PARTITIONS}.")
    if shape.kind == "rope" and shape.sizes[0] > PARTITIONS:
        raise WorkloadError(f"workload {spec!r}: D = {shape.sizes[0]} must be <= {PARTITIONS}.")
    if shape.kind == "maxpool" and min(shape.sizes[:2]) < shape.sizes[2]:
        raise WorkloadError(f"workload {spec!r}: the window P is larger than the image.")
    if shape.kind == "attention_tile" and shape.sizes[2] >= shape.sizes[0] // PARTITIONS:
        last = shape.sizes[0] // PARTITIONS - 1
        raise WorkloadError(f"workload {spec!r}: I = {shape.sizes[2]} must be 0 to {last}.")
    sizes = [math.prod(a.shape) * (2 if a.dtype == "bfloat16" else 4) for a in shape.arguments]
    if sum(sizes) > MOST_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {sum(sizes) >> 20} MiB of arrays: at most "
            f"{MOST_BYTES >> 20} MiB are kept for one kernel, so choose smaller sizes."
        )
