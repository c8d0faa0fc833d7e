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

  int products_in_flight() const { return products_; }
  // Whether a product whose last row was fed is still on its way to `address`.
  bool writes_to(LocalAddress address) const;
  void add_wakeups(Wakeup& wakeup) const;

 private:
  struct ResultRow {
    Cycle ready = 0;
    u32 row = 0;
    int slot = -1;
    bool in_accumulator = false;
    bool adds = false;
    bool is_written = false;
    bool is_last = false;
    LocalAddress tile;  // first row of the product
  };

  void write_row();

  Clock& clock_;
  Ports& ports_;
  Completions& completions_;
  const Cycle latency_;
  Fifo<ResultRow> rows_;
  int products_ = 0;
  LocalAddress last_tile_;   // the product that left last, and when
  Cycle last_left_ = 0;
};

}  // namespace cosim
