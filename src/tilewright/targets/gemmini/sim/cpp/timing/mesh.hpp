// The systolic array: a pipeline of fixed length from operand rows to result rows.
#pragma once

#include "../config.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "fifo.hpp"
#include "ports.hpp"
#include "timed_command.hpp"

namespace cosim {

// Where a product goes: the C operand of its preload.
struct ResultTile {
  LocalAddress address;
  int rows = 0;
  int slot = -1;  // of the preload, which completes with the last result; -1 for none
};

class Mesh {
 public:
  Mesh(const Config& config, Clock& clock, Ports& ports, Completions& completions);

  // Writes the result rows that leave the array in this cycle.
  void tick() {
    while (!rows_.empty() && rows_.front().ready <= clock_.now) write_row();
  }

  // Feeds row `row` of a product whose results go to `tile`.
  void feed(const ResultTile& tile, int row, u32 c_stride, bool is_last);

  bool is_empty() const { return products_.empty(); }
  // Whether a product whose last row was fed is still on its way to `address`.
  bool writes_to(LocalAddress address) const;
  void add_wakeups(Wakeup& wakeup) const;

 private:
  struct ResultRow {
    Cycle ready = 0;
    u32 scratchpad_bank = 0;  // the bit of the bank it is written to, or 0
    u32 accumulator_bank = 0;
    bool adds = false;
    bool is_last = false;
    int slot = -1;
  };

  void write_row();

  Clock& clock_;
  Ports& ports_;
  Completions& completions_;
  const Cycle latency_;
  Fifo<ResultRow> rows_;
  Fifo<LocalAddress> products_;  // first rows of those whose last row was fed
  LocalAddress last_tile_;   // the product that left last, and when
  Cycle last_left_ = 0;
};

}  // namespace cosim
