// Which local memory ports are taken in the current cycle. The scratchpad's banks have one port;
// the accumulator's have a read and a write port, and adding to a row uses both.
#pragma once

#include "../config.hpp"
#include "../types.hpp"

namespace cosim {

// Maps a local row to its bank; banks hold a power of two of rows.
class Banks {
 public:
  Banks(int banks, int bank_rows) : mask_(static_cast<u32>(banks - 1)) {
    while ((1 << shift_) < bank_rows) shift_++;
  }
  u32 bit(u32 row) const { return 1u << ((row >> shift_) & mask_); }

 private:
  int shift_ = 0;
  u32 mask_;
};

class Ports {
 public:
  explicit Ports(const Config& config)
      : scratchpad(config.scratchpad_banks, config.scratchpad_bank_rows),
        accumulator(config.accumulator_banks, config.accumulator_bank_rows) {}

  void begin_cycle() { scratchpad_writes = accumulator_writes = accumulator_adds = 0; }

  const Banks scratchpad;
  const Banks accumulator;

  // One bit per bank.
  u32 scratchpad_writes = 0;
  u32 accumulator_writes = 0;
  u32 accumulator_adds = 0;
};

}  // namespace cosim
