#include "dma_writer.hpp"

#include <algorithm>

#include "dma_reader.hpp"

namespace cosim {

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
      read_capacity_(static_cast<std::size_t>(config.scratchpad_read_delay)),
      scaled_capacity_(read_capacity_ + 1) {}

void DmaWriter::work() {
  while (!answers_.empty() && answers_.front() <= clock_.now) {
    answers_.erase(answers_.begin());
    clock_.changed = true;
  }
  const bool has_room = read_.size() < read_capacity_;
  send_row();
  scale_row();
  read_row(has_room);
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
    MemoryRequest write;
    write.address = address & ~static_cast<u64>(window.window - 1);
    write.bytes = window.window;
    write.is_write = true;
    write.fills_window = window.bytes == window.window;
    write.in_cpu_cache = cpu_cache_.share(address);
    const MemoryAnswer answer = memory_.access(write, first_beat);
    breakdown_.count(answer.is_hit ? Cause::l2_hit : Cause::l2_miss, row.pc);
    cpu_cache_.drop(address);
    answers_.insert(std::upper_bound(answers_.begin(), answers_.end(), answer.first_beat),
                    answer.first_beat);
    address += static_cast<u64>(window.bytes);
    left -= window.bytes;
  }
  if (row.sends) order_.row_written();
  bus_free_ = clock_.now + std::max<Cycle>(beats, 1);
}

// Rows of the accumulator enter the scaling pipeline; those of the scratchpad pass beside it.
void DmaWriter::scale_row() {
  if (read_.empty() || read_.front().ready > clock_.now || scaled_.size() >= scaled_capacity_) {
    return;
  }
  RowStore row = read_.front();
  read_.pop();
  row.ready = clock_.now + static_cast<Cycle>(row.in_accumulator ? config_.accumulator_scale_latency
                                                                 : config_.dma_read_latency);
  scaled_.push(row);
  clock_.changed = true;
}

// Reads one local row, unless its bank is busy.
void DmaWriter::read_row(bool has_room) {
  if (reads_.empty() || reads_.front().ready > clock_.now || !has_room) return;
  RowStore row = reads_.front();
  const auto held_rows = static_cast<std::size_t>(config_.accumulator_held_rows);
  if (row.in_accumulator && read_.size() >= held_rows) return;
  const bool is_blocked = row.in_accumulator
                              ? ports_.accumulator_adds & ports_.accumulator.bit(row.row)
                              : ports_.scratchpad_writes & ports_.scratchpad.bit(row.row);
  if (is_blocked) {
    breakdown_.add(Cause::accumulator_port, row.pc);
    waited_ = clock_.now;
    return;
  }
  clock_.changed = true;
  row.ready = clock_.now + 1;
  read_.push(row);
  tracker_.advance(row.tracker, 1);
  reads_.pop();
}

void DmaWriter::add_wakeups(Wakeup& wakeup) const {
  if (!answers_.empty()) wakeup.at(answers_.front());
  if (!scaled_.empty()) wakeup.at(std::max(scaled_.front().ready, bus_free_));
  if (!read_.empty()) wakeup.at(read_.front().ready);
  if (!reads_.empty()) wakeup.at(reads_.front().ready);
}

}  // namespace cosim
