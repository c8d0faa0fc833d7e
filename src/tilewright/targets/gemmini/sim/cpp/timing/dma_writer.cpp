#include "dma_writer.hpp"

#include <algorithm>

#include "dma_reader.hpp"

namespace cosim {
namespace {

// Cycles from a local read to the store queue, besides scaling.
constexpr Cycle kReadLatency = 3;

}  // namespace

DmaWriter::DmaWriter(const Config& config, Clock& clock, Ports& ports, MemorySystem& memory,
                     MemoryOrder& order, CpuCache& cpu_cache,
                     CommandTracker& tracker, Breakdown& breakdown)
    : config_(config),
      clock_(clock),
      ports_(ports),
      memory_(memory),
      order_(order),
      cpu_cache_(cpu_cache),
      tracker_(tracker),
      breakdown_(breakdown),
      scaled_capacity_(static_cast<std::size_t>(config.scratchpad_read_delay) + 2) {}

void DmaWriter::tick() {
  while (!answers_.empty() && answers_.front() <= clock_.now) {
    answers_.erase(answers_.begin());
    clock_.changed = true;
  }
  send_row();
  read_row();
}

// Sends the memory row whose last block is ready: one beat per cycle.
void DmaWriter::send_row() {
  if (scaled_.empty() || scaled_.front().ready > clock_.now || bus_free_ > clock_.now ||
      answers_.size() >= static_cast<std::size_t>(config_.dma_in_flight)) {
    return;
  }
  const RowStore row = scaled_.front();
  scaled_.pop();
  clock_.changed = true;
  Cycle beats = 0;
  u64 address = row.address;
  for (int left = row.sends ? row.bytes : 0; left > 0;) {
    const Window window =
        best_window(address, left, config_.dma_bus_bytes, config_.dma_max_request_bytes);
    const Cycle first_beat = clock_.now + static_cast<Cycle>(config_.dma_store_latency) + beats;
    beats += static_cast<Cycle>(window.window / config_.dma_bus_bytes);
    order_.write(row.sequence, address, static_cast<u64>(window.bytes));
    const bool fills_line = window.bytes == config_.l2_line_bytes;
    const Cycle answer = memory_.access(
        address, first_beat,
        fills_line ? MemoryAccess::full_line_write : MemoryAccess::partial_write,
        cpu_cache_.share(address));
    breakdown_.add(memory_.was_hit() ? Cause::l2_hit : Cause::l2_miss, row.pc);
    cpu_cache_.drop(address);
    answers_.insert(std::upper_bound(answers_.begin(), answers_.end(), answer), answer);
    address += static_cast<u64>(window.bytes);
    left -= window.bytes;
  }
  if (row.sends) order_.row_written();
  bus_free_ = clock_.now + std::max<Cycle>(beats, 1);
}

// Reads one local row, unless its bank is busy.
void DmaWriter::read_row() {
  if (reads_.empty() || reads_.front().ready > clock_.now) return;
  if (scaled_.size() >= scaled_capacity_) return;
  RowStore row = reads_.front();
  const bool is_blocked = row.in_accumulator
                              ? ports_.accumulator_adds & ports_.accumulator.bit(row.row)
                              : ports_.scratchpad_writes & ports_.scratchpad.bit(row.row);
  if (is_blocked) {
    breakdown_.add(Cause::accumulator_port, row.pc);
    return;
  }
  clock_.changed = true;
  const Cycle scaling =
      row.in_accumulator ? static_cast<Cycle>(config_.accumulator_scale_latency) : 1;
  row.ready = clock_.now + kReadLatency + scaling;
  scaled_.push(row);
  tracker_.advance(row.tracker, 1);
  reads_.pop();
}

void DmaWriter::add_wakeups(Wakeup& wakeup) const {
  if (!answers_.empty()) wakeup.at(answers_.front());
  if (!scaled_.empty()) wakeup.at(std::max(scaled_.front().ready, bus_free_));
  if (!reads_.empty()) wakeup.at(reads_.front().ready);
}

}  // namespace cosim
