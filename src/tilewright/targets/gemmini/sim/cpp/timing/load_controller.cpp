#include "load_controller.hpp"

namespace cosim {

LoadController::LoadController(const Config& config, Clock& clock, Fifo<IssuedCommand>& commands,
                               CommandTracker& tracker, DmaReader& reader)
    : config_(config), clock_(clock), commands_(commands), tracker_(tracker), reader_(reader) {
  for (LoadConfig& load : configs_) load.block_stride = config.array_dim;
}

void LoadController::work() {
  const IssuedCommand& issued = commands_.front();
  const TimedCommand& command = issued.command;
  if (command.funct == kConfig) {
    configs_[load_config_id(command.rs1)] = unpack_load_config(command.rs1, command.rs2);
    commands_.pop();
    clock_.changed = true;
    return;
  }
  if (!is_moving_) {
    const bool is_zeros = command.rs1 == 0;
    const LoadConfig& config = configs_[load_id(command.funct)];
    // Equal rows are read once and written to every local row.
    rows_ = config.stride == 0 && !is_zeros ? 1 : command.second.rows;
    tracked_ = tracker_.start(issued.slot, is_zeros ? rows_ : row_of(command).bytes * rows_);
    if (tracked_ < 0) return;
    is_moving_ = true;
    row_ = 0;
    clock_.changed = true;
  }
  send_row(issued);
}

RowRead LoadController::row_of(const TimedCommand& command) const {
  const LoadConfig& config = configs_[load_id(command.funct)];
  const bool is_zeros = command.rs1 == 0;
  RowRead row;
  row.address = command.rs1 + static_cast<u64>(row_) * config.stride;
  row.pc = command.pc;
  row.sequence = command.sequence;
  row.row = command.second.address.row() + static_cast<u32>(row_);
  row.in_accumulator = command.second.address.in_accumulator();
  row.is_wide = row.in_accumulator && !config.shrunk;
  row.is_scaled = config.scale != 1.0f && !is_zeros;
  row.bytes = command.second.cols;
  if (!is_zeros) row.bytes *= row.is_wide ? config_.sum_bytes() : config_.element_bytes();
  row.block_stride = config.block_stride;
  row.repeats = config.stride == 0 && !is_zeros ? command.second.rows - 1 : 0;
  row.tracker = tracked_;
  row.ready = clock_.now + 1;
  return row;
}

void LoadController::send_row(const IssuedCommand& issued) {
  const bool is_zeros = issued.command.rs1 == 0;
  if (!(is_zeros ? reader_.accepts_zeros() : reader_.accepts())) return;
  const RowRead row = row_of(issued.command);
  if (is_zeros) {
    reader_.push_zeros(row);
  } else {
    reader_.push(row);
  }
  clock_.changed = true;
  if (++row_ < rows_) return;
  is_moving_ = false;
  commands_.pop();
}

}  // namespace cosim
