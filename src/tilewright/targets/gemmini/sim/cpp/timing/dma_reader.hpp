// Reads rows from memory into the scratchpad and accumulator: splits them into aligned requests,
// keeps a limited number in flight, and writes what returns, one local row per cycle.
#pragma once

#include <vector>

#include "../config.hpp"
#include "breakdown.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "../cpu_cache.hpp"
#include "fifo.hpp"
#include "memory_order.hpp"
#include "memory_system.hpp"
#include "ports.hpp"

namespace cosim {

// One row of a move-in.
struct RowRead {
  u64 address = 0;
  u64 pc = 0;
  u64 sequence = 0;
  u32 row = 0;
  bool in_accumulator = false;
  bool is_wide = false;  // elements as wide as sums
  bool is_scaled = false;
  int bytes = 0;         // columns, for zeros
  int block_stride = 0;
  int repeats = 0;       // further local rows that get the same data
  int tracker = 0;
  Cycle ready = 0;
};

class DmaReader {
 public:
  DmaReader(const Config& config, Clock& clock, Ports& ports, MemorySystem& memory,
            MemoryOrder& order, CpuCache& cpu_cache, CommandTracker& tracker, Breakdown& breakdown);

  // Zeros do not come from memory; one row is written at a time.
  bool accepts_zeros() const { return !has_zeros_; }
  bool accepts() const { return rows_.size() < row_capacity_; }
  void push(const RowRead& row);
  void push_zeros(const RowRead& row);

  // In the order of a cycle: data returns and is written, then new requests leave.
  void write_rows() {
    if (in_flight_ > 0 || has_zeros_ || !writes_.empty()) receive_and_write();
  }
  void issue_requests() {
    if (is_splitting_ || !rows_.empty()) issue_request();
  }

  bool is_busy() const { return in_flight_ > 0 || !writes_.empty(); }
  void add_wakeups(Wakeup& wakeup) const;

 private:
  // What is asked of memory, as far as its answer needs it.
  struct Request {
    Cycle ready = 0;
    u64 order = 0;
    Cycle beat_cycles = 1;
    u32 row = 0;         // the first to write
    int block_stride = 0;
    int repeats = 0;
    int tracker = 0;
    int local_row_bytes = 0;
    int offset = 0;      // in the local row, of the first byte
    int bytes = 0;
    int beats = 0;
    bool in_accumulator = false;
    bool is_scaled = false;
    bool is_before(const Request& other) const {
      return ready != other.ready ? ready < other.ready : order < other.order;
    }
  };
  struct RowWrite {
    Cycle ready = 0;
    u32 row = 0;
    bool in_accumulator = false;
    bool is_scaled = false;
    bool is_last = false;  // of its request
    int bytes = 0;         // of its request
    int tracker = 0;
  };

  int bytes_per_local_row(const RowRead& row) const;
  void receive_and_write();
  void issue_request();
  void remember(const Request& request);
  void receive_beat();
  bool write_row();
  void write_zeros(bool port_is_taken);
  void start_next_row();

  const Config config_;
  Clock& clock_;
  Ports& ports_;
  MemorySystem& memory_;
  MemoryOrder& memory_order_;
  CpuCache& cpu_cache_;
  CommandTracker& tracker_;
  Breakdown& breakdown_;
  const std::size_t row_capacity_;
  int bus_shift_ = 0;

  Fifo<RowRead> rows_;
  bool is_splitting_ = false;
  RowRead splitting_;
  int split_bytes_ = 0;  // of it, requested so far

  Fifo<Request> outstanding_;   // in the order of their answers
  int in_flight_ = 0;
  bool was_last_beat_ = false;  // of a request, in the cycle before
  u64 order_ = 0;
  bool is_receiving_ = false;
  Request receiving_;
  int received_beats_ = 0;
  Cycle next_beat_ = 0;
  int received_rows_ = 0;

  Fifo<RowWrite> writes_;
  Cycle write_free_ = 0;  // the scaling unit may hold up the next write
  bool has_zeros_ = false;
  RowRead zeros_;
  int zero_col_ = 0;
};

// The aligned window of at most `limit` bytes that carries most of `left` bytes at `address`.
struct Window {
  int window = 0;  // bytes, a power of two
  int bytes = 0;   // of the request within it
};
Window best_window(u64 address, int left, int smallest, int limit);

}  // namespace cosim
