// Writes rows of the scratchpad and accumulator to memory: reads them, scales, and sends aligned
// requests with a limited number in flight.
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

// One local row of a move-out. `sends` marks the last block of a memory row: the whole row's
// bytes leave with it.
struct RowStore {
  u64 address = 0;
  u64 pc = 0;
  u64 sequence = 0;
  u32 row = 0;
  bool in_accumulator = false;
  bool sends = false;
  int bytes = 0;
  int tracker = 0;
  Cycle ready = 0;
};

class DmaWriter {
 public:
  DmaWriter(const Config& config, Clock& clock, Ports& ports, MemorySystem& memory,
            MemoryOrder& order, CpuCache& cpu_cache, CommandTracker& tracker, Breakdown& breakdown);

  bool accepts() const { return reads_.size() < static_cast<std::size_t>(config_.dma_store_rows); }
  void push(const RowStore& row) { reads_.push(row); }

  void tick() {
    if (is_busy()) work();
  }

  bool is_busy() const {
    return !answers_.empty() || !scaled_.empty() || !read_.empty() || !reads_.empty();
  }
  // Whether the next row to be read waited in this cycle for its bank.
  bool waited_for_bank() const { return waited_ == clock_.now; }
  void add_wakeups(Wakeup& wakeup) const;

 private:
  void work();
  void send_row();
  void scale_row();
  void read_row(bool has_room);

  const Config config_;
  Clock& clock_;
  Ports& ports_;
  MemorySystem& memory_;
  MemoryOrder& order_;
  CpuCache& cpu_cache_;
  CommandTracker& tracker_;
  Breakdown& breakdown_;
  const std::size_t read_capacity_;
  const std::size_t scaled_capacity_;

  Fifo<RowStore> reads_;   // to be read
  Fifo<RowStore> read_;    // read, on their way to scaling
  Fifo<RowStore> scaled_;  // in the scaling pipeline and after it
  Cycle bus_free_ = 0;
  Cycle waited_ = 0;  // when a row last waited for its bank
  std::vector<Cycle> answers_;  // when writes in flight are answered, sorted
};

}  // namespace cosim
