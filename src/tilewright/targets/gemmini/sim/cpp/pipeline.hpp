// How many cycles Rocket's in-order pipeline takes for each instruction, apart from waiting for
// memory and for the accelerator.
#pragma once

#include <vector>

#include "config.hpp"
#include "instruction.hpp"
#include "types.hpp"

namespace cosim {

class Pipeline {
 public:
  explicit Pipeline(const Config& config);

  // Cycles of the instruction at `pc`. `address` is what a load or store accesses; `taken` says
  // whether a branch was.
  u32 cycles(const Instruction& instruction, u64 pc, u64 address, bool taken);

 private:
  struct Store {
    u64 address = ~0ull;
    u64 index = 0;
  };

  u32 branch(u64 pc, bool taken);
  u32 load(u64 address) const;

  static constexpr u64 kBranchEntries = 512;

  const Config config_;
  std::vector<u8> branch_counters_;  // two-bit saturating counters
  Store stores_[2];
  int next_store_ = 0;
  u64 index_ = 0;         // instructions so far
  u8 loaded_register_ = 0;  // written by the load just before, 0 for none
};

}  // namespace cosim
