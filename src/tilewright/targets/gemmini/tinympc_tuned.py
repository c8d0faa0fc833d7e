"""The `tuned` and `library` kernels of the TinyMPC passes.

tuned: everything stays in local memory. Matrices are loaded once, and negated while they are loaded
if their products are subtracted. Vectors are added by loading them into the accumulator before the
products of their sum. A result that is a factor of the next product is copied through the array to
the scratchpad. The only fence is at the end.

library: one routine for all sizes, as a vendor's library has it: bounds and addresses are computed
at run time, matrix-vector products are computed one after the other, and the core adds vectors.
fsm: the same with one hardware loop for each product, which also adds vectors if it can.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.tinympc import TinyMpc
from tilewright.targets.gemmini.tinympc_naive import parameters

_LIBRARY = Path(__file__).parent / "library"


def tuned_tinympc(mpc: TinyMpc, instance: Instance) -> str | None:
    """C source; None if matrices or vectors do not fit into their part of the local memories."""
    dim, limits = instance.dim, instance.limits
    blocks_s, blocks_i = -(-mpc.states // dim), -(-mpc.inputs // dim)
    matrices = blocks_s * blocks_s + 2 * blocks_s * blocks_i + blocks_i * blocks_i
    vectors = (blocks_s + 2 * blocks_i) * dim
    sums = limits["accumulator_banks"] * limits["accumulator_bank_rows"] // 2
    bank = limits["scratchpad_bank_rows"]
    room = bank if limits["scratchpad_banks"] > 1 else bank // 2
    if matrices * dim > room or vectors > room or vectors > sums:
        return None
    body = _FORWARD if mpc.direction == "forward" else _BACKWARD
    return (
        f"#define STATES {mpc.states}\n#define INPUTS {mpc.inputs}\n#define STEPS {mpc.steps}\n"
        + _COMMON
        + body.replace("@PARAMETERS@", parameters(mpc))
    )


def library_tinympc(mpc: TinyMpc, *, by_loop_unroller: bool = False) -> str:
    """The routine, called with sizes that the compiler does not know."""
    routine = "fsm_matrix_vector.c" if by_loop_unroller else "matrix_vector.c"
    if by_loop_unroller:
        body = _FSM_FORWARD if mpc.direction == "forward" else _FSM_BACKWARD
    else:
        body = _LIBRARY_FORWARD if mpc.direction == "forward" else _LIBRARY_BACKWARD
    temporaries = ["product", "feedback"] if "feedback" in body else ["product"]
    longest = max(mpc.states, mpc.inputs)
    sizes = f"{{{mpc.states}, {mpc.inputs}, {mpc.steps}}}"
    return (
        (_LIBRARY / routine).read_text(encoding="utf-8")
        + f"\nstatic const volatile int sizes[3] = {sizes};\n"
        + f"static float {', '.join(f'{name}[{longest}]' for name in temporaries)};\n\n"
        + body.replace("@PARAMETERS@", parameters(mpc))
    )


_COMMON = """\
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define LEFT(size, from) MIN(DIM, (size) - (from))
#define ROUND(size) (((size) + DIM - 1) / DIM * DIM)
#define S ROUND(STATES)
#define I ROUND(INPUTS)
#define SUMS (ACC_BANKS * ACC_BANK_ROWS / 2)  // two iterations take turns
#define VECTORS (SPAD_BANKS > 1 ? SPAD_BANK_ROWS : SPAD_BANK_ROWS / 2)

// Block (m, k) of a matrix lies at to + (m * columns + k) with its columns rounded up to blocks.
static inline void load_matrix(const float *from, uint32_t to, int rows, int columns) {
  for (int m = 0; m < rows; m += DIM)
    for (int k = 0; k < columns; k += MAX_COLUMNS)
      mvin(from + m * columns + k, to + m / DIM * ROUND(columns) + k, MIN(MAX_COLUMNS, columns - k),
           LEFT(rows, m));
}

// sum += matrix * vector, blocks of the vector in turn: each is put into the array once
static inline void multiply(uint32_t matrix, uint32_t vector, uint32_t sum, uint32_t add_first,
                            int rows, int columns) {
  for (int k = 0; k < columns; k += DIM) {
    const uint32_t add = k == 0 ? add_first : ACCUMULATE;
    preload(vector + k, sum | add, 1, LEFT(columns, k), 1, LEFT(rows, 0));
    compute_preloaded(matrix + k, NONE, LEFT(columns, k), LEFT(rows, 0), 1, LEFT(rows, 0));
    for (int m = DIM; m < rows; m += DIM) {
      preload(NONE, (sum + m) | add, 1, LEFT(columns, k), 1, LEFT(rows, m));
      compute_accumulated(matrix + m / DIM * ROUND(columns) + k, NONE, LEFT(columns, k),
                          LEFT(rows, m), 1, LEFT(rows, m));
    }
  }
}

// A vector from the accumulator to the scratchpad: added to nothing on its way through the array.
static inline void copy(uint32_t from, uint32_t to, int size) {
  for (int k = 0; k < size; k += DIM) {
    preload(NONE, to + k, 1, DIM, 1, LEFT(size, k));
    compute_preloaded(NONE, from + k, DIM, LEFT(size, k), 1, LEFT(size, k));
  }
}

static inline void load_vector(const float *from, uint32_t to, int size) {
  for (int k = 0; k < size; k += DIM) mvin2(from + k, to + k, 1, LEFT(size, k));
}

static inline void add_vector(const float *from, uint32_t to, int size) {
  for (int k = 0; k < size; k += DIM) mvin3(from + k, to + k, 1, LEFT(size, k));
}

static inline void store_vector(float *to, uint32_t from, int size) {
  for (int k = 0; k < size; k += DIM) mvout(to + k, from + k, 1, LEFT(size, k));
}

"""

_FORWARD = """\
#define A SPAD(0)
#define B SPAD(S / DIM * S)
#define K SPAD(S / DIM * S + S / DIM * I)
#define X SPAD(VECTORS)
#define U SPAD(VECTORS + S)

void kernel(@PARAMETERS@) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(4);
  config_ld(4, 1.0f, DIM, 1);
  config_ld(4, -1.0f, DIM, 2);
  config_ld(4 * STATES, -1.0f, DIM, 0);
  load_matrix(&Kinf[0][0], K, INPUTS, STATES);
  load_vector(x[0], X, STATES);
  config_ld(4 * STATES, 1.0f, DIM, 0);
  load_matrix(&Adyn[0][0], A, STATES, STATES);
  config_ld(4 * INPUTS, 1.0f, DIM, 0);
  load_matrix(&Bdyn[0][0], B, STATES, INPUTS);
  for (int i = 0; i < STEPS; i++) {
    const uint32_t input = ACC(i % 2 * SUMS), next = input + I;
    add_vector(d[i], input, INPUTS);  // -d
    multiply(K, X, input, ACCUMULATE, INPUTS, STATES);
    multiply(A, X, next, 0, STATES, STATES);
    copy(input, U, INPUTS);
    multiply(B, U, next, ACCUMULATE, STATES, INPUTS);
    copy(next, X, STATES);
    store_vector(u[i], input, INPUTS);
    store_vector(x[i + 1], next, STATES);
  }
  fence();
}
"""

_BACKWARD = """\
#define A SPAD(0)
#define BT SPAD(S / DIM * S)
#define KT SPAD(S / DIM * S + I / DIM * S)
#define Q SPAD(S / DIM * S + I / DIM * S + S / DIM * I)
#define P SPAD(VECTORS)
#define R SPAD(VECTORS + S)
#define BP SPAD(VECTORS + S + I)

void kernel(@PARAMETERS@) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(4);
  config_ld(4, 1.0f, DIM, 1);
  config_ld(4, 1.0f, DIM, 2);
  config_ld(4 * STATES, 1.0f, DIM, 0);
  load_vector(p[STEPS], P, STATES);
  load_matrix(&BdynT[0][0], BT, INPUTS, STATES);
  load_matrix(&AmBKt[0][0], A, STATES, STATES);
  config_ld(4 * INPUTS, -1.0f, DIM, 0);
  load_matrix(&KinfT[0][0], KT, STATES, INPUTS);
  config_ld(4 * INPUTS, 1.0f, DIM, 0);
  load_matrix(&Quu_inv[0][0], Q, INPUTS, INPUTS);
  for (int i = STEPS - 1; i >= 0; i--) {
    const uint32_t sum = ACC(i % 2 * SUMS), next = sum + I, forward = next + S;
    add_vector(r[i], sum, INPUTS);
    load_vector(r[i], R, INPUTS);
    add_vector(q[i], next, STATES);
    multiply(BT, P, sum, ACCUMULATE, INPUTS, STATES);
    multiply(A, P, next, ACCUMULATE, STATES, STATES);
    multiply(KT, R, next, ACCUMULATE, STATES, INPUTS);
    copy(next, P, STATES);
    copy(sum, BP, INPUTS);
    multiply(Q, BP, forward, 0, INPUTS, INPUTS);
    store_vector(p[i], next, STATES);
    store_vector(d[i], forward, INPUTS);
  }
  fence();
}
"""

_LIBRARY_FORWARD = """\
void kernel(@PARAMETERS@) {
  const int states = sizes[0], inputs = sizes[1], steps = sizes[2];
  for (int i = 0; i < steps; i++) {
    multiply(&Kinf[0][0], x[i], u[i], inputs, states);
    for (int j = 0; j < inputs; j++) u[i][j] = -u[i][j] - d[i][j];
    multiply(&Adyn[0][0], x[i], x[i + 1], states, states);
    multiply(&Bdyn[0][0], u[i], product, states, inputs);
    for (int j = 0; j < states; j++) x[i + 1][j] += product[j];
  }
}
"""

_LIBRARY_BACKWARD = """\
void kernel(@PARAMETERS@) {
  const int states = sizes[0], inputs = sizes[1], steps = sizes[2];
  for (int i = steps - 1; i >= 0; i--) {
    multiply(&BdynT[0][0], p[i + 1], product, inputs, states);
    for (int j = 0; j < inputs; j++) product[j] += r[i][j];
    multiply(&Quu_inv[0][0], product, d[i], inputs, inputs);
    multiply(&AmBKt[0][0], p[i + 1], p[i], states, states);
    multiply(&KinfT[0][0], r[i], product, states, inputs);
    for (int j = 0; j < states; j++) p[i][j] = q[i][j] + p[i][j] - product[j];
  }
}
"""

_FSM_FORWARD = """\
void kernel(@PARAMETERS@) {
  const int states = sizes[0], inputs = sizes[1], steps = sizes[2];
  for (int i = 0; i < steps; i++) {
    multiply(&Kinf[0][0], x[i], d[i], u[i], inputs, states);
    multiply(&Adyn[0][0], x[i], 0, product, states, states);
    fence();
    for (int j = 0; j < inputs; j++) u[i][j] = -u[i][j];
    multiply(&Bdyn[0][0], u[i], product, x[i + 1], states, inputs);
    fence();
  }
}
"""

_FSM_BACKWARD = """\
void kernel(@PARAMETERS@) {
  const int states = sizes[0], inputs = sizes[1], steps = sizes[2];
  for (int i = steps - 1; i >= 0; i--) {
    multiply(&BdynT[0][0], p[i + 1], r[i], product, inputs, states);
    multiply(&AmBKt[0][0], p[i + 1], q[i], p[i], states, states);
    fence();
    multiply(&Quu_inv[0][0], product, 0, d[i], inputs, inputs);
    multiply(&KinfT[0][0], r[i], 0, feedback, states, inputs);
    fence();
    for (int j = 0; j < states; j++) p[i][j] -= feedback[j];
  }
}
"""
