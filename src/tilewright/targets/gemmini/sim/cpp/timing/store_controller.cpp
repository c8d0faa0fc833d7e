#include "store_controller.hpp"

namespace cosim {

StoreController::StoreController(const Config& config, Clock& clock, Fifo<IssuedCommand>& commands,
                                 CommandTracker& tracker, DmaWriter& writer)
    : config_(config), clock_(clock), commands_(commands), tracker_(tracker), writer_(writer) {}

void StoreController::work() {
  const IssuedCommand& issued = commands_.front();
  const TimedCommand& command = issued.command;
  if (command.funct == kConfig) {
    store_config_ = unpack_store_config(command.rs1, command.rs2, store_config_);
    commands_.pop();
    clock_.changed = true;
    return;
  }
  if (!is_moving_) {
    const int blocks = (command.second.cols + config_.array_dim - 1) / config_.array_dim;
    tracked_ = tracker_.start(issued.slot, command.second.rows * blocks);
    if (tracked_ < 0) return;
    is_moving_ = true;
    row_ = block_ = 0;
    clock_.changed = true;
  }
  if (writer_.accepts()) send_row(command);
}

void StoreController::send_row(const TimedCommand& command) {
  const Tile& tile = command.second;
  const int blocks = (tile.cols + config_.array_dim - 1) / config_.array_dim;
  RowStore row;
  row.address = command.rs1 + static_cast<u64>(row_) * store_config_.stride;
  row.pc = command.pc;
  row.sequence = command.sequence;
  row.row = tile.address.row() + static_cast<u32>(block_ * config_.array_dim + row_);
  row.in_accumulator = tile.address.in_accumulator();
  row.sends = block_ == blocks - 1;
  row.bytes = tile.cols * (row.in_accumulator && tile.address.reads_full()
                               ? config_.sum_bytes()
                               : config_.element_bytes());
  row.tracker = tracked_;
  row.ready = clock_.now + 1;
  writer_.push(row);
  clock_.changed = true;
  if (++block_ < blocks) return;
  block_ = 0;
  if (++row_ < tile.rows) return;
  is_moving_ = false;
  commands_.pop();
}

}  // namespace cosim
