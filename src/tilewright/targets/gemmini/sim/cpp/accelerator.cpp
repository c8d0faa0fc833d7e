#include "accelerator.hpp"

#include <algorithm>

namespace cosim {

Accelerator::Accelerator(const Config& config, Memory& memory, bool checks_written)
    : config_(config),
      dim_(config.array_dim),
      memory_(memory),
      checks_written_(checks_written),
      datapath_(make_datapath(config)),
      scratchpad_written_(static_cast<std::size_t>(config.scratchpad_rows()), 0),
      accumulator_written_(static_cast<std::size_t>(config.accumulator_rows()), 0),
      loop_registers_(config) {
  for (LoadConfig& load : load_configs_) load.block_stride = dim_;
}

void Accelerator::execute(u8 funct, u64 rs1, u64 rs2, u64 pc) {
  switch (funct) {
    case kConfig: configure(rs1, rs2); break;
    case kMvin: case kMvin2: case kMvin3: move_in(funct, rs1, rs2, pc); break;
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
  memory_.begin_loop_loads();
  for (const LoopRole role : {kLoadD, kLoadA, kLoadB, kExecute, kStore}) {
    if (role == kExecute) memory_.end_loop_loads();
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
      if (next.transposed_operands() > 1) {
        throw_fault(FaultKind::illegal_instruction,
                    next.weight_stationary
                        ? "config_ex: A and B cannot both be transposed, there is one transposer"
                        : "config_ex: output-stationary, B can be transposed only if A is too, "
                          "there is one transposer and A as it is needs it");
      }
      execute_config_ = next;
      break;
    }
    default: throw_fault(FaultKind::illegal_instruction, "config of unit 3, which does not exist");
  }
}

void Accelerator::move_in(u8 funct, u64 rs1, u64 rs2, u64 pc) {
  const LoadConfig& config = load_configs_[load_id(funct)];
  const Tile tile = unpack_tile(rs2);
  check_move("mvin", tile);
  const int blocks = (tile.cols + dim_ - 1) / dim_;
  if (blocks > 1 && config.block_stride < tile.rows) {
    throw_fault(FaultKind::limit_exceeded,
                "mvin of %d columns and %d rows with a block stride of %d: the blocks overlap, it "
                "must be at least the number of rows",
                tile.cols, tile.rows, config.block_stride);
  }
  const bool in_accumulator = tile.address.in_accumulator();
  const bool adds = in_accumulator && tile.address.accumulates();
  const u32 first = tile.address.row();
  for (int block = 0; block < blocks; block++) {
    const u32 base = first + static_cast<u32>(block * config.block_stride);
    check_bounds("mvin", {in_accumulator, base, 1, tile.rows});
  }
  for (int block = 0; adds && block < blocks; block++) {
    const u32 base = first + static_cast<u32>(block * config.block_stride);
    check_written("mvin that accumulates", {true, base, 1, tile.rows});
  }
  const int element_bytes =
      in_accumulator && !config.shrunk ? config_.sum_bytes() : config_.element_bytes();
  const u64 row_bytes = static_cast<u64>(tile.cols * element_bytes);
  for (int r = 0; r < tile.rows; r++) {
    const u8* source =
        rs1 ? memory_.load_row(rs1 + static_cast<u64>(r) * config.stride, row_bytes, pc)
            : nullptr;
    for (int block = 0; block < blocks; block++) {
      const int col = block * dim_;
      const u32 row = first + static_cast<u32>(block * config.block_stride + r);
      const u8* elements = source ? source + col * element_bytes : nullptr;
      const int cols = std::min(dim_, tile.cols - col);
      if (in_accumulator) {
        datapath_->load_accumulator(row, elements, cols, config, adds);
      } else {
        datapath_->load_scratchpad(row, elements, cols, config.scale);
      }
      mark_written(in_accumulator, row);
    }
  }
}

void Accelerator::move_out(u64 rs1, u64 rs2, u64 pc) {
  const Tile tile = unpack_tile(rs2);
  check_move("mvout", tile);
  const bool in_accumulator = tile.address.in_accumulator();
  const u32 first = tile.address.row();
  const int blocks = (tile.cols + dim_ - 1) / dim_;
  for (int block = 0; block < blocks; block++) {
    const Rows rows{in_accumulator, first + static_cast<u32>(block * dim_), 1, tile.rows};
    check_bounds("mvout", rows);
    check_written("mvout", rows);
  }
  const bool full = tile.address.reads_full();
  const int element_bytes =
      in_accumulator && full ? config_.sum_bytes() : config_.element_bytes();
  const u64 row_bytes = static_cast<u64>(tile.cols * element_bytes);
  for (int r = 0; r < tile.rows; r++) {
    u8* target =
        memory_.store_row(rs1 + static_cast<u64>(r) * store_config_.stride, row_bytes, pc);
    for (int block = 0; block < blocks; block++) {
      const int col = block * dim_;
      const u32 row = first + static_cast<u32>(col + r);
      const int cols = std::min(dim_, tile.cols - col);
      if (in_accumulator) {
        datapath_->store_accumulator(row, target + col * element_bytes, cols, store_config_, full);
      } else {
        datapath_->store_scratchpad(row, target + col * element_bytes, cols);
      }
    }
  }
}

void Accelerator::preload(u64 rs1, u64 rs2) {
  if (is_preloaded_) {
    throw_fault(FaultKind::illegal_instruction,
                "preload without a compute for the preload before it, whose result the array would "
                "write as zeros");
  }
  preloaded_ = unpack_tile(rs1);
  result_ = unpack_tile(rs2);
  is_preloaded_ = true;
  const bool transposed = execute_config_.weight_stationary && execute_config_.b_transposed;
  operand(execute_config_.weight_stationary ? "preload B" : "preload D", preloaded_, transposed, 1);
  if (!result_.address.is_none()) check_result();
}

// The result is written with the stride of the time of the compute, which a config_ex after the
// preload may have changed.
void Accelerator::check_result() {
  check_tile("preload C", result_);
  const Rows local{result_.address.in_accumulator(), result_.address.row(),
                   execute_config_.c_stride, result_.rows};
  check_bounds("preload C", local);
  if (local.in_accumulator && result_.address.accumulates()) {
    check_written("preload C that accumulates", local);
  }
  result_stride_ = local.stride;
}

void Accelerator::compute(u8 funct, u64 rs1, u64 rs2) {
  if (!is_preloaded_) {
    throw_fault(FaultKind::illegal_instruction, "compute without a preload before it");
  }
  is_preloaded_ = false;
  const bool keeps = funct == kComputeAccumulated;
  const ExecuteConfig& config = execute_config_;
  Product product;
  product.a = operand("compute A", unpack_tile(rs1), config.a_transposed, config.a_stride);
  product.relu = config.relu;
  product.scale = config.scale;
  // The size given for a result that is not written may be anything and means nothing.
  if (!result_.address.is_none()) {
    product.result = {true, result_.address.in_accumulator(), false, result_.address.row(),
                      config.c_stride, result_.rows, result_.cols};
  }
  product.adds = result_.address.accumulates();
  if (product.result.exists && product.result.stride != result_stride_) check_result();
  if (config.weight_stationary) {
    compute_weight_stationary(keeps, product, unpack_tile(rs2));
  } else {
    compute_output_stationary(keeps, product, unpack_tile(rs2));
  }
  for (int r = 0; product.result.exists && r < product.result.rows; r++) {
    const u32 row = product.result.row + static_cast<u32>(r) * product.result.stride;
    mark_written(product.result.in_accumulator, row);
  }
}

void Accelerator::compute_weight_stationary(bool keeps, Product& product, const Tile& d) {
  check_held(keeps, Held::weights);
  if (!keeps) {
    const Block weights = operand("preload B", preloaded_, execute_config_.b_transposed, 1);
    datapath_->latch_weights(weights, product.relu, product.scale);
    weight_rows_ = weights.exists ? weights.rows : 0;
    weight_cols_ = weights.exists ? weights.cols : 0;
  }
  product.bias = operand("compute D", d, false, 1);
  datapath_->multiply(product);
  if (!product.a.exists) return;
  macs_ += static_cast<u64>(product.a.rows) *
           static_cast<u64>(std::min(product.a.cols, weight_rows_)) *
           static_cast<u64>(weight_cols_);
}

void Accelerator::compute_output_stationary(bool keeps, Product& product, const Tile& b) {
  check_held(keeps, Held::sums);
  if (keeps && has_unwritten_result_) {
    throw_fault(FaultKind::illegal_instruction,
                "compute_accumulated output-stationary after a product with a destination: its "
                "sums leave the array only when new ones come in, so give NONE as C of all but the "
                "last product of a sum");
  }
  product.output_stationary = true;
  product.keeps_sums = keeps;
  product.shift = execute_config_.shift;
  product.bias = operand("preload D", preloaded_, false, 1);
  product.b = operand("compute B", b, execute_config_.b_transposed, 1);
  datapath_->multiply(product);
  has_unwritten_result_ = product.result.exists;
  if (!product.a.exists || !product.b.exists) return;
  macs_ += static_cast<u64>(product.a.rows) *
           static_cast<u64>(std::min(product.a.cols, product.b.rows)) *
           static_cast<u64>(product.b.cols);
}

// An operand that was put into the array for one dataflow means nothing to the other.
void Accelerator::check_held(bool keeps, Held wanted) {
  if (keeps && held_ != Held::nothing && held_ != wanted) {
    throw_fault(FaultKind::illegal_instruction,
                "compute_accumulated with what the other dataflow left in the array: begin with "
                "compute_preloaded after config_ex has changed the dataflow");
  }
  held_ = wanted;
}

Block Accelerator::operand(const char* what, const Tile& tile, bool transposed, u32 stride) {
  if (tile.address.is_none()) return {};
  check_tile(what, tile);
  const Block block{true, tile.address.in_accumulator(), transposed, tile.address.row(),
                    stride, tile.rows, tile.cols};
  // Transposed, the local rows are the matrix's columns.
  const Rows local{block.in_accumulator, block.row, stride, transposed ? tile.cols : tile.rows};
  check_bounds(what, local);
  check_written(what, local);
  return block;
}

void Accelerator::check_move(const char* what, const Tile& tile) const {
  const int max_cols = config_.max_blocks() * dim_;
  if (tile.cols >= 1 && tile.cols <= max_cols && tile.rows >= 1 && tile.rows <= dim_) return;
  throw_fault(FaultKind::limit_exceeded,
              "%s of %d columns and %d rows: must be 1..%d columns and 1..%d rows", what,
              tile.cols, tile.rows, max_cols, dim_);
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
