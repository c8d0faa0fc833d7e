#include "mesh.hpp"

namespace cosim {
namespace {

// Skewing the operands, crossing the array in both directions, and leaving it.
Cycle latency(const Config& config) {
  const int dim = config.array_dim;
  const int step = config.array_tile_latency + 1;
  return static_cast<Cycle>(config.array_input_delay + dim * step + (dim - 1) * step +
                            config.array_output_delay);
}

}  // namespace

Mesh::Mesh(const Config& config, Clock& clock, Ports& ports, Completions& completions)
    : clock_(clock), ports_(ports), completions_(completions), latency_(latency(config)) {}

void Mesh::feed(const ResultTile& tile, int row, u32 c_stride, bool is_last) {
  ResultRow result;
  result.ready = clock_.now + latency_;
  if (!tile.address.is_none() && row < tile.rows) {
    const u32 local_row = tile.address.row() + static_cast<u32>(row) * c_stride;
    if (tile.address.in_accumulator()) {
      result.accumulator_bank = ports_.accumulator.bit(local_row);
    } else {
      result.scratchpad_bank = ports_.scratchpad.bit(local_row);
    }
  }
  result.adds = tile.address.accumulates();
  result.is_last = is_last;
  result.slot = tile.slot;
  rows_.push(result);
  if (is_last) products_.push(tile.address);
}

bool Mesh::writes_to(LocalAddress address) const {
  if (last_left_ == clock_.now && last_tile_.is_same_row(address)) return true;
  for (std::size_t i = 0; i < products_.size(); i++) {
    if (products_[i].is_same_row(address)) return true;
  }
  return false;
}

void Mesh::write_row() {
  const ResultRow& row = rows_.front();
  ports_.scratchpad_writes |= row.scratchpad_bank;
  ports_.accumulator_writes |= row.accumulator_bank;
  if (row.adds) ports_.accumulator_adds |= row.accumulator_bank;
  if (row.is_last) {
    last_tile_ = products_.front();
    products_.pop();
    last_left_ = clock_.now;
    if (row.slot >= 0) completions_.push_product(row.slot);
  }
  rows_.pop();
  clock_.changed = true;
}

void Mesh::add_wakeups(Wakeup& wakeup) const {
  if (!rows_.empty()) wakeup.at(rows_.front().ready);
}

}  // namespace cosim
