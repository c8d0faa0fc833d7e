#include "dma_reader.hpp"

#include <algorithm>
#include <utility>

namespace cosim {

Window best_window(u64 address, int left, int smallest, int limit) {
  Window best;
  for (int size = smallest; size <= limit; size *= 2) {
    const int offset = static_cast<int>(address & static_cast<u64>(size - 1));
    const int bytes = std::min(size - offset, left);
    if (bytes > best.bytes) best = {size, bytes};
  }
  return best;
}

DmaReader::DmaReader(const Config& config, Clock& clock, Ports& ports, MemorySystem& memory,
                     MemoryOrder& order, CpuCache& cpu_cache,
                     CommandTracker& tracker, Breakdown& breakdown)
    : config_(config),
      clock_(clock),
      ports_(ports),
      memory_(memory),
      memory_order_(order),
      cpu_cache_(cpu_cache),
      tracker_(tracker),
      breakdown_(breakdown),
      row_capacity_(static_cast<std::size_t>(config.scratchpad_read_delay) + 1) {
  while ((1 << bus_shift_) < config.dma_bus_bytes) bus_shift_++;
}

int DmaReader::bytes_per_local_row(const RowRead& row) const {
  return row.is_wide ? config_.accumulator_row_bytes() : config_.scratchpad_row_bytes();
}

void DmaReader::push(const RowRead& row) { rows_.push(row); }

void DmaReader::push_zeros(const RowRead& row) {
  has_zeros_ = true;
  zeros_ = row;
  zero_col_ = 0;
}

void DmaReader::receive_and_write() {
  receive_beat();
  const bool finished_request = write_row();
  write_zeros(finished_request);
}

// One beat per cycle comes back; rows that are complete go to the write queue.
void DmaReader::receive_beat() {
  if (was_last_beat_) {
    in_flight_--;
    was_last_beat_ = false;
    clock_.changed = true;
  }
  if (!is_receiving_ && !outstanding_.empty() && outstanding_.front().ready <= clock_.now) {
    receiving_ = outstanding_.front();
    outstanding_.pop();
    is_receiving_ = true;
    received_beats_ = received_rows_ = 0;
    next_beat_ = clock_.now;
  }
  if (!is_receiving_ || next_beat_ > clock_.now) return;
  clock_.changed = true;
  received_beats_++;
  next_beat_ = clock_.now + receiving_.beat_cycles;
  const Request& r = receiving_;
  const int received = received_beats_ * config_.dma_bus_bytes;
  const bool is_last_beat = received_beats_ >= r.beats;
  const Cycle latency = static_cast<Cycle>(config_.dma_write_latency +
                                           (r.is_scaled ? config_.dma_scale_latency : 0));
  while (received_rows_ * r.local_row_bytes < r.bytes + r.offset) {
    const int end = std::min((received_rows_ + 1) * r.local_row_bytes - r.offset, r.bytes);
    if (received < end && !is_last_beat) break;
    const bool is_last_row = end >= r.bytes;
    const u32 first = r.row + static_cast<u32>(received_rows_ * r.block_stride);
    for (int repeat = r.repeats; repeat >= 0; repeat--) {
      writes_.push({clock_.now + latency, first + static_cast<u32>(repeat), r.in_accumulator,
                    r.is_scaled, is_last_row && repeat == 0, r.bytes, r.tracker});
    }
    received_rows_++;
  }
  if (is_last_beat) {
    is_receiving_ = false;
    was_last_beat_ = true;
  }
}

// True when the write completed a request.
bool DmaReader::write_row() {
  if (writes_.empty() || writes_.front().ready > clock_.now || write_free_ > clock_.now) {
    return false;
  }
  const RowWrite write = writes_.front();
  if (write.in_accumulator) {
    const u32 bank = ports_.accumulator.bit(write.row);
    if (ports_.accumulator_writes & bank) return false;
    ports_.accumulator_writes |= bank;
  } else {
    ports_.scratchpad_writes |= ports_.scratchpad.bit(write.row);
  }
  clock_.changed = true;
  if (write.is_scaled) {
    write_free_ = clock_.now + static_cast<Cycle>((config_.array_dim + config_.dma_scale_lanes - 1) /
                                                  config_.dma_scale_lanes);
  }
  if (write.is_last) tracker_.advance(write.tracker, write.bytes);
  writes_.pop();
  return write.is_last;
}

// Zeros have the lowest priority on the write ports.
void DmaReader::write_zeros(bool port_is_taken) {
  if (!has_zeros_ || port_is_taken) return;
  const u32 block = static_cast<u32>(zero_col_ / config_.array_dim);
  const u32 row = zeros_.row + block * static_cast<u32>(zeros_.block_stride);
  if (zeros_.in_accumulator) {
    const u32 bank = ports_.accumulator.bit(row);
    if (ports_.accumulator_writes & bank) return;
    ports_.accumulator_writes |= bank;
  } else {
    ports_.scratchpad_writes |= ports_.scratchpad.bit(row);
  }
  clock_.changed = true;
  zero_col_ += config_.array_dim;
  if (zero_col_ < zeros_.bytes) return;
  tracker_.advance(zeros_.tracker, 1);
  has_zeros_ = false;
}

void DmaReader::start_next_row() {
  if (rows_.empty() || rows_.front().ready > clock_.now) return;
  splitting_ = rows_.front();
  rows_.pop();
  is_splitting_ = true;
  split_bytes_ = 0;
  clock_.changed = true;
}

// One request per cycle leaves, as long as not too many are in flight.
void DmaReader::issue_request() {
  if (!is_splitting_) {
    start_next_row();
    return;
  }
  if (in_flight_ >= config_.dma_in_flight) return;
  const u64 address = splitting_.address + static_cast<u64>(split_bytes_);
  const Window window = best_window(address, splitting_.bytes - split_bytes_,
                                    config_.dma_bus_bytes, config_.dma_max_request_bytes);
  const int local_row_bytes = bytes_per_local_row(splitting_);
  Request request;
  // Most rows leave in one request: divisions take longer than all else here.
  const int local_rows = split_bytes_ == 0 ? 0 : split_bytes_ / local_row_bytes;
  request.row = splitting_.row + static_cast<u32>(local_rows * splitting_.block_stride);
  request.block_stride = splitting_.block_stride;
  request.repeats = splitting_.repeats;
  request.tracker = splitting_.tracker;
  request.in_accumulator = splitting_.in_accumulator;
  request.is_scaled = splitting_.is_scaled;
  request.local_row_bytes = local_row_bytes;
  request.offset = split_bytes_ - local_rows * local_row_bytes;
  request.bytes = window.bytes;
  request.beats = window.window >> bus_shift_;
  // A window whose last beats carry nothing for the row takes one more cycle to finish.
  const int end = static_cast<int>(address & static_cast<u64>(window.window - 1)) + window.bytes;
  if (end <= window.window - config_.dma_bus_bytes) request.beats++;
  request.order = order_++;
  memory_order_.read(splitting_.sequence, address, static_cast<u64>(window.bytes));
  MemoryRequest read;
  read.address = address & ~static_cast<u64>(window.window - 1);
  read.bytes = window.window;
  read.in_cpu_cache = cpu_cache_.share(address);
  const MemoryAnswer answer =
      memory_.access(read, clock_.now + static_cast<Cycle>(config_.dma_issue_latency));
  request.ready = answer.first_beat;
  request.beat_cycles = answer.beat_cycles;
  breakdown_.count(answer.is_hit ? Cause::l2_hit : Cause::l2_miss, splitting_.pc);
  remember(request);
  in_flight_++;
  clock_.changed = true;
  split_bytes_ += window.bytes;
  if (split_bytes_ < splitting_.bytes) return;
  is_splitting_ = false;
  memory_order_.row_read(static_cast<u64>(splitting_.repeats) + 1);
  start_next_row();
}

// Answers come nearly in the order of the requests.
void DmaReader::remember(const Request& request) {
  outstanding_.push(request);
  for (std::size_t i = outstanding_.size() - 1; i > 0; i--) {
    if (!outstanding_[i].is_before(outstanding_[i - 1])) return;
    std::swap(outstanding_[i], outstanding_[i - 1]);
  }
}

void DmaReader::add_wakeups(Wakeup& wakeup) const {
  if (!rows_.empty()) wakeup.at(rows_.front().ready);
  if (!outstanding_.empty()) wakeup.at(outstanding_.front().ready);
  if (is_receiving_) wakeup.at(next_beat_);
  if (!writes_.empty()) wakeup.at(std::max(writes_.front().ready, write_free_));
}

}  // namespace cosim
