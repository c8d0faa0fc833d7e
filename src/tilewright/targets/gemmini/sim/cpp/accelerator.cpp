#include "accelerator.hpp"

#include <algorithm>
#include <cmath>

namespace cosim {
namespace {

i8 saturate(i32 value) { return static_cast<i8>(std::clamp(value, -128, 127)); }

// float32 scaling, rounded to the nearest even and saturated; NaN gives the largest value.
i8 scale_to_i8(i32 value, float scale) {
  const float scaled = std::nearbyintf(static_cast<float>(value) * scale);
  if (scaled <= -128.0f) return -128;
  return scaled < 127.0f ? static_cast<i8>(scaled) : i8{127};
}

i32 read_i32(const u8* bytes) {
  i32 value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// sums[i][j] += sum over k of a[i][k] * b[k][j]; row-major, `dim` elements per row.
inline void multiply_add(int dim, int rows, const i16* a, const i16* b, i32* sums, int pitch) {
  for (int i = 0; i < rows; i++) {
    for (int k = 0; k < dim; k++) {
      const i32 factor = a[i * pitch + k];
      for (int j = 0; j < dim; j++) sums[i * pitch + j] += factor * b[k * pitch + j];
    }
  }
}

}  // namespace

Accelerator::Accelerator(const Config& config, Memory& memory, bool checks_written)
    : config_(config),
      dim_(config.array_dim),
      memory_(memory),
      checks_written_(checks_written),
      scratchpad_(static_cast<std::size_t>(config.scratchpad_rows() * dim_)),
      accumulator_(static_cast<std::size_t>(config.accumulator_rows() * dim_)),
      scratchpad_written_(static_cast<std::size_t>(config.scratchpad_rows()), 0),
      accumulator_written_(static_cast<std::size_t>(config.accumulator_rows()), 0),
      loop_registers_(config) {
  // Power-on contents are arbitrary: a pattern shows what zeros would hide.
  for (std::size_t i = 0; i < scratchpad_.size(); i++) scratchpad_[i] = static_cast<i8>(i * 37 + 91);
  for (std::size_t i = 0; i < accumulator_.size(); i++) {
    accumulator_[i] = static_cast<i32>(i * 2654435761u);
  }
  for (LoadConfig& load : load_configs_) load.block_stride = dim_;
}

void Accelerator::execute(u8 funct, u64 rs1, u64 rs2, u64 pc) {
  switch (funct) {
    case kConfig: configure(rs1, rs2); break;
    case kMvin: case kMvin2: case kMvin3: move_in(funct, rs1, rs2); break;
    case kMvout: move_out(rs1, rs2, pc); break;
    case kPreload: preload(rs1, rs2); break;
    case kComputePreloaded: case kComputeAccumulated: compute(funct, rs1, rs2); break;
    case kFlush: break;  // empties the address translation cache
    default:
      if (!is_loop_command(funct)) {
        throw_fault(FaultKind::illegal_instruction, "the accelerator has no command %d", funct);
      }
      run_loop(funct, rs1, rs2, pc);
  }
}

// A loop's commands part by part: an order that its own dependencies allow.
void Accelerator::run_loop(u8 funct, u64 rs1, u64 rs2, u64 pc) {
  const std::unique_ptr<Loop> loop = loop_registers_.take(funct, rs1, rs2);
  if (!loop) return;
  for (const LoopRole role : {kLoadD, kLoadA, kLoadB, kExecute, kStore}) {
    for (const auto stream = loop->stream(role); !stream->is_done; stream->advance()) {
      const CommandWords words = stream->command();
      execute(words.funct, words.rs1, words.rs2, pc);
    }
  }
}

void Accelerator::configure(u64 rs1, u64 rs2) {
  switch (config_target(rs1)) {
    case kConfigLoad: {
      const int id = load_config_id(rs1);
      if (id > 2) throw_fault(FaultKind::limit_exceeded, "config_ld id %d: must be 0, 1 or 2", id);
      load_configs_[id] = unpack_load_config(rs1, rs2);
      break;
    }
    case kConfigStore: store_config_ = unpack_store_config(rs1, rs2, store_config_); break;
    case kConfigExecute: {
      const ExecuteConfig next = merge_execute_config(rs1, rs2, execute_config_);
      if (!next.weight_stationary) {
        throw_fault(FaultKind::illegal_instruction,
                    "config_ex: this configuration has the weight-stationary dataflow only");
      }
      if (next.a_transposed && next.b_transposed) {
        throw_fault(FaultKind::illegal_instruction,
                    "config_ex: A and B cannot both be transposed, there is one transposer");
      }
      execute_config_ = next;
      break;
    }
    default: throw_fault(FaultKind::illegal_instruction, "config of unit 3, which does not exist");
  }
}

void Accelerator::move_in(u8 funct, u64 rs1, u64 rs2) {
  const LoadConfig& config = load_configs_[load_id(funct)];
  const Tile tile = unpack_tile(rs2);
  const int max_cols = config_.commands_max_blocks * dim_;
  if (tile.cols < 1 || tile.cols > max_cols || tile.rows < 1 || tile.rows > dim_) {
    throw_fault(FaultKind::limit_exceeded,
                "mvin of %d columns and %d rows: must be 1..%d columns and 1..%d rows", tile.cols,
                tile.rows, max_cols, dim_);
  }
  const int blocks = (tile.cols + dim_ - 1) / dim_;
  if (blocks > 1 && config.block_stride < tile.rows) {
    throw_fault(FaultKind::limit_exceeded,
                "mvin of %d columns and %d rows with a block stride of %d: the blocks overlap, it "
                "must be at least the number of rows",
                tile.cols, tile.rows, config.block_stride);
  }
  const bool in_accumulator = tile.address.in_accumulator();
  const u32 first = tile.address.row();
  for (int block = 0; block < blocks; block++) {
    const u32 base = first + static_cast<u32>(block * config.block_stride);
    check_bounds("mvin", {in_accumulator, base, 1, tile.rows});
  }
  if (in_accumulator && tile.address.accumulates()) {
    for (int block = 0; block < blocks; block++) {
      const u32 base = first + static_cast<u32>(block * config.block_stride);
      check_written("mvin that accumulates", {true, base, 1, tile.rows});
    }
  }
  const int element_bytes = in_accumulator && !config.shrunk ? 4 : 1;
  const u64 row_bytes = static_cast<u64>(tile.cols * element_bytes);
  for (int r = 0; r < tile.rows; r++) {
    const u8* source =
        rs1 ? memory_.read(rs1 + static_cast<u64>(r) * config.stride, row_bytes, Accessor::mvin)
            : nullptr;
    for (int block = 0; block < blocks; block++) {
      const int col = block * dim_;
      const u32 row = first + static_cast<u32>(block * config.block_stride + r);
      load_row(config, tile.address, row, source ? source + col * element_bytes : nullptr,
               std::min(dim_, tile.cols - col));
      mark_written(in_accumulator, row);
    }
  }
}

// Writes `cols` elements of one local row; a null source stands for zeros.
void Accelerator::load_row(const LoadConfig& config, LocalAddress address, u32 row,
                           const u8* source, int cols) {
  if (!address.in_accumulator()) {
    i8* target = &scratchpad_[row * static_cast<u32>(dim_)];
    if (!source) {
      std::memset(target, 0, static_cast<std::size_t>(cols));
    } else if (config.scale == 1.0f) {
      std::memcpy(target, source, static_cast<std::size_t>(cols));
    } else {
      for (int c = 0; c < cols; c++) {
        target[c] = scale_to_i8(static_cast<i8>(source[c]), config.scale);
      }
    }
    return;
  }
  i32* target = &accumulator_[row * static_cast<u32>(dim_)];
  for (int c = 0; c < cols; c++) {
    i32 value = 0;
    if (source) {
      value = config.shrunk ? scale_to_i8(static_cast<i8>(source[c]), config.scale)
                            : read_i32(source + 4 * c);
    }
    const u32 previous = address.accumulates() ? static_cast<u32>(target[c]) : 0u;
    target[c] = static_cast<i32>(previous + static_cast<u32>(value));
  }
}

void Accelerator::move_out(u64 rs1, u64 rs2, u64 pc) {
  const Tile tile = unpack_tile(rs2);
  const int max_cols = config_.commands_max_blocks * dim_;
  if (tile.cols < 1 || tile.cols > max_cols || tile.rows < 1 || tile.rows > dim_) {
    throw_fault(FaultKind::limit_exceeded,
                "mvout of %d columns and %d rows: must be 1..%d columns and 1..%d rows", tile.cols,
                tile.rows, max_cols, dim_);
  }
  const bool in_accumulator = tile.address.in_accumulator();
  const u32 first = tile.address.row();
  const int blocks = (tile.cols + dim_ - 1) / dim_;
  for (int block = 0; block < blocks; block++) {
    const Rows rows{in_accumulator, first + static_cast<u32>(block * dim_), 1, tile.rows};
    check_bounds("mvout", rows);
    check_written("mvout", rows);
  }
  const int element_bytes = in_accumulator && tile.address.reads_full() ? 4 : 1;
  const u64 row_bytes = static_cast<u64>(tile.cols * element_bytes);
  for (int r = 0; r < tile.rows; r++) {
    u8* target =
        memory_.write_unordered(rs1 + static_cast<u64>(r) * store_config_.stride, row_bytes, pc);
    for (int block = 0; block < blocks; block++) {
      const int col = block * dim_;
      store_row(tile.address, first + static_cast<u32>(col + r), target + col * element_bytes,
                std::min(dim_, tile.cols - col));
    }
  }
}

void Accelerator::store_row(LocalAddress address, u32 row, u8* target, int cols) const {
  const std::size_t start = row * static_cast<std::size_t>(dim_);
  if (!address.in_accumulator()) {
    std::memcpy(target, &scratchpad_[start], static_cast<std::size_t>(cols));
    return;
  }
  const i32* source = &accumulator_[start];
  if (address.reads_full()) {
    std::memcpy(target, source, static_cast<std::size_t>(cols) * 4);
    return;
  }
  for (int c = 0; c < cols; c++) {
    const i32 value = store_config_.relu ? std::max(source[c], 0) : source[c];
    const i8 result =
        store_config_.scale == 1.0f ? saturate(value) : scale_to_i8(value, store_config_.scale);
    target[c] = static_cast<u8>(result);
  }
}

void Accelerator::preload(u64 rs1, u64 rs2) {
  if (is_preloaded_) {
    throw_fault(FaultKind::illegal_instruction,
                "preload without a compute for the preload before it, whose result the array would "
                "write as zeros");
  }
  weights_tile_ = unpack_tile(rs1);
  result_ = unpack_tile(rs2);
  is_preloaded_ = true;
  if (!weights_tile_.address.is_none()) {
    check_tile("preload B", weights_tile_);
    // Transposed, the local rows are the columns of B.
    const int rows = execute_config_.b_transposed ? weights_tile_.cols : weights_tile_.rows;
    const Rows local{weights_tile_.address.in_accumulator(), weights_tile_.address.row(), 1, rows};
    if (local.in_accumulator) {
      throw_fault(FaultKind::illegal_address, "preload of B from the accumulator is not modelled");
    }
    check_bounds("preload B", local);
    check_written("preload B", local);
  }
  if (!result_.address.is_none()) {
    check_tile("preload C", result_);
    const Rows local{result_.address.in_accumulator(), result_.address.row(),
                     execute_config_.c_stride, result_.rows};
    check_bounds("preload C", local);
    if (local.in_accumulator && result_.address.accumulates()) {
      check_written("preload C that accumulates", local);
    }
  }
}

void Accelerator::load_weights() {
  std::memset(weights_, 0, sizeof weights_);
  weight_rows_ = weight_cols_ = 0;
  if (weights_tile_.address.is_none()) return;
  weight_rows_ = weights_tile_.rows;
  weight_cols_ = weights_tile_.cols;
  const i8* rows = &scratchpad_[weights_tile_.address.row() * static_cast<u32>(dim_)];
  for (int k = 0; k < weight_rows_; k++) {
    for (int j = 0; j < weight_cols_; j++) {
      weights_[k][j] = execute_config_.b_transposed ? rows[j * dim_ + k] : rows[k * dim_ + j];
    }
  }
}

void Accelerator::compute(u8 funct, u64 rs1, u64 rs2) {
  if (!is_preloaded_) {
    throw_fault(FaultKind::illegal_instruction, "compute without a preload before it");
  }
  is_preloaded_ = false;
  if (funct == kComputePreloaded) load_weights();
  const Tile a = unpack_tile(rs1);
  const Tile bias = unpack_tile(rs2);
  i32 sums[kMaxDim][kMaxDim] = {};
  if (!bias.address.is_none()) add_bias(bias, sums);
  if (!a.address.is_none()) {
    check_tile("compute A", a);
    const bool transposed = execute_config_.a_transposed;
    const Rows local{a.address.in_accumulator(), a.address.row(), execute_config_.a_stride,
                     transposed ? a.cols : a.rows};
    if (local.in_accumulator) {
      throw_fault(FaultKind::illegal_address, "compute of A in the accumulator is not modelled");
    }
    check_bounds("compute A", local);
    check_written("compute A", local);
    i16 operand[kMaxDim][kMaxDim] = {};
    for (int r = 0; r < local.rows; r++) {
      const u32 row = local.first + static_cast<u32>(r) * local.stride;
      const i8* source = &scratchpad_[row * static_cast<u32>(dim_)];
      if (transposed) {
        for (int i = 0; i < a.rows; i++) operand[i][r] = source[i];
      } else {
        for (int k = 0; k < a.cols; k++) operand[r][k] = source[k];
      }
    }
    const i16* left = &operand[0][0];
    const i16* right = &weights_[0][0];
    // The constant lets the compiler vectorise the usual case.
    if (dim_ == kMaxDim) {
      multiply_add(kMaxDim, a.rows, left, right, &sums[0][0], kMaxDim);
    } else {
      multiply_add(dim_, a.rows, left, right, &sums[0][0], kMaxDim);
    }
    macs_ += static_cast<u64>(a.rows) * static_cast<u64>(std::min(a.cols, weight_rows_)) *
             static_cast<u64>(weight_cols_);
  }
  if (!result_.address.is_none()) write_results(sums);
}

void Accelerator::add_bias(const Tile& bias, i32 (&sums)[kMaxDim][kMaxDim]) {
  check_tile("compute D", bias);
  const Rows local{bias.address.in_accumulator(), bias.address.row(), 1, bias.rows};
  check_bounds("compute D", local);
  check_written("compute D", local);
  for (int r = 0; r < bias.rows; r++) {
    const std::size_t start = (local.first + static_cast<u32>(r)) * static_cast<std::size_t>(dim_);
    for (int c = 0; c < bias.cols; c++) {
      const std::size_t index = start + static_cast<std::size_t>(c);
      sums[r][c] = local.in_accumulator ? accumulator_[index] : scratchpad_[index];
    }
  }
}

void Accelerator::write_results(const i32 (&sums)[kMaxDim][kMaxDim]) {
  const bool in_accumulator = result_.address.in_accumulator();
  for (int r = 0; r < result_.rows; r++) {
    const u32 row = result_.address.row() + static_cast<u32>(r) * execute_config_.c_stride;
    const std::size_t start = row * static_cast<std::size_t>(dim_);
    for (int c = 0; c < result_.cols; c++) {
      const std::size_t index = start + static_cast<std::size_t>(c);
      if (in_accumulator) {
        const u32 previous =
            result_.address.accumulates() ? static_cast<u32>(accumulator_[index]) : 0u;
        accumulator_[index] = static_cast<i32>(previous + static_cast<u32>(sums[r][c]));
      } else {
        const i32 value = execute_config_.relu ? std::max(sums[r][c], 0) : sums[r][c];
        scratchpad_[index] = saturate(value);
      }
    }
    mark_written(in_accumulator, row);
  }
}

void Accelerator::check_bounds(const char* what, const Rows& rows) const {
  const u64 limit = static_cast<u64>(rows.in_accumulator ? config_.accumulator_rows()
                                                         : config_.scratchpad_rows());
  const u64 last = rows.first + static_cast<u64>(rows.rows - 1) * rows.stride;
  if (last < limit) return;
  throw_fault(FaultKind::local_out_of_bounds, "%s of %s rows %u..%llu: there are %llu rows", what,
              rows.in_accumulator ? "accumulator" : "scratchpad", rows.first,
              static_cast<unsigned long long>(last), static_cast<unsigned long long>(limit));
}

void Accelerator::check_written(const char* what, const Rows& rows) const {
  if (!checks_written_) return;
  const std::vector<u8>& written = rows.in_accumulator ? accumulator_written_ : scratchpad_written_;
  for (int r = 0; r < rows.rows; r++) {
    const u32 row = rows.first + static_cast<u32>(r) * rows.stride;
    if (written[row]) continue;
    throw_fault(FaultKind::uninitialised_read, "%s reads %s row %u, which was never written", what,
                rows.in_accumulator ? "accumulator" : "scratchpad", row);
  }
}

void Accelerator::check_tile(const char* what, const Tile& tile) const {
  if (tile.cols >= 1 && tile.cols <= dim_ && tile.rows >= 1 && tile.rows <= dim_) return;
  throw_fault(FaultKind::limit_exceeded, "%s of %d columns and %d rows: must be 1..%d of each",
              what, tile.cols, tile.rows, dim_);
}

void Accelerator::mark_written(bool in_accumulator, u32 row) {
  u8& written = in_accumulator ? accumulator_written_[row] : scratchpad_written_[row];
  if (written) return;
  written = 1;
  (in_accumulator ? accumulator_touched_ : scratchpad_touched_)++;
}

}  // namespace cosim
