#include "matmul_loop.hpp"

#include <algorithm>

#include "command.hpp"
#include "fault.hpp"

namespace cosim {
namespace {

constexpr u32 kAccumulator = 0x80000000u;
constexpr u32 kAccumulate = 0x40000000u;
constexpr u32 kFull = 0x20000000u;

// The streams keep a copy of their loop: they outlive it.
class MatmulStream : public LoopStream {
 public:
  explicit MatmulStream(const MatmulLoop& loop) : loop_(loop) {}

 protected:
  const LoopGeometry& geometry() const { return loop_.geometry(); }
  const MatmulBounds& bounds() const { return loop_.bounds(); }
  const MatmulLoop loop_;
};

// Steps the inner counter, and the outer one when the inner one wraps.
void step(u32& inner, u32 by, u32 inner_end, u32& outer, u32 outer_by, u32 outer_end,
          bool& is_done) {
  inner += by;
  if (inner < inner_end) return;
  inner = 0;
  outer += outer_by;
  if (outer < outer_end) return;
  outer = 0;
  is_done = true;
}

// Loads of A go down the rows, then along the depth; those of B along the columns first. One moves
// as many blocks as fit into a DMA request's bytes.
class OperandLoads : public MatmulStream {
 public:
  OperandLoads(const MatmulLoop& loop, bool is_a) : MatmulStream(loop), is_a_(is_a) {
    const MatmulBounds& b = bounds();
    transposed_ = is_a ? b.a_transposed : b.b_transposed;
    row_blocks_ = is_a ? (transposed_ ? b.k : b.i) : (transposed_ ? b.j : b.k);
    col_blocks_ = is_a ? (transposed_ ? b.i : b.k) : (transposed_ ? b.k : b.j);
    blocks_ = std::min(col_blocks_, geometry().max_blocks);
  }

  CommandWords command() const override {
    const u32 dim = geometry().dim;
    const u32 other = is_a_ ? i : j;  // counts along with k
    const u32 row = is_a_ == transposed_ ? k : other;
    const u32 col = is_a_ == transposed_ ? other : k;
    const u32 moved = std::min(blocks_, col_blocks_ - col);
    const bool is_last_row = row == row_blocks_ - 1;
    const bool is_last_col = col + moved >= col_blocks_;
    const u32 pad_other = is_a_ ? bounds().pad_i : bounds().pad_j;
    const u32 row_pad = is_a_ == transposed_ ? bounds().pad_k : pad_other;
    const u32 col_pad = is_a_ == transposed_ ? pad_other : bounds().pad_k;
    const u64 stride = is_a_ ? bounds().a_stride : bounds().b_stride;
    const u64 offset = (row * stride + col) * dim * geometry().input_bytes;
    const u32 start = is_a_ ? loop_.places().a_start : loop_.b_start();
    return {is_a_ ? kMvin : kMvin2, (is_a_ ? bounds().a : bounds().b) + offset,
            pack_tile(start + (row * col_blocks_ + col) * dim,
                      moved * dim - (is_last_col ? col_pad : 0),
                      dim - (is_last_row ? row_pad : 0))};
  }

  void advance() override {
    const bool depth_is_col = is_a_ != transposed_;
    const u32 by = depth_is_col ? 1 : blocks_;
    const u32 depth_by = depth_is_col ? blocks_ : 1;
    step(is_a_ ? i : j, by, is_a_ ? bounds().i : bounds().j, k, depth_by, bounds().k, is_done);
  }

 private:
  const bool is_a_;
  bool transposed_ = false;
  u32 row_blocks_ = 0;  // of the matrix as it lies in DRAM
  u32 col_blocks_ = 0;
  u32 blocks_ = 0;      // moved at once
};

class BiasLoads : public MatmulStream {
 public:
  explicit BiasLoads(const MatmulLoop& loop) : MatmulStream(loop) {
    is_done = bounds().d == 0;
    const u32 most = bounds().low_d ? geometry().max_blocks : geometry().max_accumulator_blocks;
    blocks_ = std::min(bounds().j, most);
  }

  CommandWords command() const override {
    const u32 dim = geometry().dim;
    const u32 moved = std::min(blocks_, bounds().j - j);
    const u32 bytes = bounds().low_d ? geometry().input_bytes : geometry().accumulator_bytes;
    const u32 row = loop_.places().accumulator_start + (i * bounds().j + j) * dim;
    return {kMvin3, bounds().d + (i * bounds().d_stride + j) * dim * bytes,
            pack_tile(kAccumulator | row, (moved - 1) * dim + loop_.cols(j + moved - 1),
                      loop_.rows(i))};
  }

  void advance() override { step(i, 1, bounds().i, j, blocks_, bounds().j, is_done); }

 private:
  u32 blocks_ = 0;
};

// All rows by one block of B, which stays in the array after the first; then the next column.
class Products : public MatmulStream {
 public:
  explicit Products(const MatmulLoop& loop) : MatmulStream(loop) {}

  CommandWords command() const override { return is_compute_ ? compute() : preload(); }

  void advance() override {
    is_compute_ = !is_compute_;
    if (is_compute_) return;
    bool is_next_depth = false;
    step(i, 1, bounds().i, j, 1, bounds().j, is_next_depth);
    if (is_next_depth && ++k == bounds().k) is_done = true;
  }

 private:
  CommandWords preload() const {
    const u32 row = bounds().b_transposed ? j * bounds().k + k : k * bounds().j + j;
    const u32 b = i == 0 ? loop_.b_start() + row * geometry().dim : LocalAddress::kNone;
    const u32 add = bounds().accumulates || k != 0 ? kAccumulate : 0;
    const u32 c = loop_.places().accumulator_start + (i * bounds().j + j) * geometry().dim;
    return {kPreload, pack_tile(b, loop_.cols(j), loop_.depth(k)),
            pack_tile(kAccumulator | add | c, loop_.cols(j), loop_.rows(i))};
  }

  CommandWords compute() const {
    const u32 block = bounds().a_transposed ? k * bounds().i + i : i * bounds().k + k;
    const u32 a = loop_.places().a_start + block * geometry().dim;
    return {i == 0 ? kComputePreloaded : kComputeAccumulated,
            pack_tile(a, loop_.depth(k), loop_.rows(i)),
            pack_tile(LocalAddress::kNone, geometry().dim, geometry().dim)};
  }

  bool is_compute_ = false;
};

class Stores : public MatmulStream {
 public:
  explicit Stores(const MatmulLoop& loop) : MatmulStream(loop) { is_done = bounds().c == 0; }

  CommandWords command() const override {
    const u32 dim = geometry().dim;
    const u32 moved = std::min(loop_.blocks_per_store(), bounds().j - j);
    const u32 bytes = bounds().full_c ? geometry().accumulator_bytes : geometry().input_bytes;
    const u32 row = loop_.places().accumulator_start + (i * bounds().j + j) * dim;
    return {kMvout, bounds().c + (i * bounds().c_stride + j) * dim * bytes,
            pack_tile(kAccumulator | (bounds().full_c ? kFull : 0) | row,
                      (moved - 1) * dim + loop_.cols(j + moved - 1), loop_.rows(i))};
  }

  void advance() override {
    step(i, 1, bounds().i, j, loop_.blocks_per_store(), bounds().j, is_done);
  }
};

}  // namespace

MatmulLoop::MatmulLoop(const LoopGeometry& geometry, const MatmulBounds& bounds,
                       const LoopPlaces& places)
    : geometry_(geometry), bounds_(bounds), places_(places) {
  if (bounds.i == 0 || bounds.j == 0 || bounds.k == 0) {
    throw_fault(FaultKind::limit_exceeded, "loop_ws of %u x %u x %u blocks: each must be 1 or more",
                bounds.i, bounds.j, bounds.k);
  }
  if (std::max({bounds.pad_i, bounds.pad_j, bounds.pad_k}) >= geometry.dim) {
    throw_fault(FaultKind::limit_exceeded,
                "loop_ws with padding %u, %u, %u: each must be less than a block of %u",
                bounds.pad_i, bounds.pad_j, bounds.pad_k, geometry.dim);
  }
  if (bounds.a_transposed && bounds.b_transposed) {
    throw_fault(FaultKind::illegal_instruction,
                "loop_ws: A and B cannot both be transposed, there is one transposer");
  }
  const u64 operands = static_cast<u64>(bounds.i + bounds.j) * bounds.k * geometry.dim;
  const u64 results = static_cast<u64>(bounds.i) * bounds.j * geometry.dim;
  if (operands > geometry.half_scratchpad || results > geometry.half_accumulator) {
    throw_fault(FaultKind::local_out_of_bounds,
                "loop_ws needs %llu scratchpad and %llu accumulator rows: a loop has half of each, "
                "%u and %u",
                static_cast<unsigned long long>(operands), static_cast<unsigned long long>(results),
                geometry.half_scratchpad, geometry.half_accumulator);
  }
}

u32 MatmulLoop::blocks_per_store() const {
  return bounds_.full_c ? 1 : std::min(bounds_.j, geometry_.max_blocks);
}

std::unique_ptr<LoopStream> MatmulLoop::stream(LoopRole role) const {
  switch (role) {
    case kLoadA: return std::make_unique<OperandLoads>(*this, true);
    case kLoadB: return std::make_unique<OperandLoads>(*this, false);
    case kLoadD: return std::make_unique<BiasLoads>(*this);
    case kExecute: return std::make_unique<Products>(*this);
    default: return std::make_unique<Stores>(*this);
  }
}

bool MatmulLoop::is_loaded(const LoopStream& execute, const LoopStream& a,
                           const LoopStream& b) const {
  const bool has_a = a.is_done || a.k > execute.k || (a.k == execute.k && a.i > execute.i);
  // The RTL compares A's depth here, not B's.
  const bool has_b = b.is_done || b.k > execute.k || (a.k == execute.k && b.j > execute.j);
  return has_a && has_b;
}

bool MatmulLoop::is_computed(const LoopStream& store, const LoopStream& execute) const {
  if (execute.is_done) return true;
  const u32 blocks = std::min(blocks_per_store(), bounds_.j - store.j);
  return execute.k == bounds_.k - 1 &&
         (execute.j >= store.j + blocks ||
          (execute.j == store.j + blocks - 1 && execute.i > store.i));
}

}  // namespace cosim
