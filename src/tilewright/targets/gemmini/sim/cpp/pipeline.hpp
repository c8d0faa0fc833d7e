// How many cycles Rocket's in-order pipeline takes for each instruction, apart from waiting for
// memory and for the accelerator.
#pragma once

#include <vector>

#include "config.hpp"
#include "cpu_cache.hpp"
#include "instruction.hpp"
#include "types.hpp"

namespace cosim {

// What an instruction did, as far as its time depends on it.
struct Execution {
  u64 pc = 0;
  u64 address = 0;    // of a load or store
  u64 dividend = 0;   // rs1 and rs2 before a division
  u64 divisor = 0;
  bool taken = false;  // a branch
};

class Pipeline {
 public:
  explicit Pipeline(const Config& config);

  u32 cycles(const Instruction& instruction, const Execution& execution);

 private:
  // A store on its way into the data cache. It is written in a cycle without a load.
  struct PendingStore {
    u64 address = 0;
    u64 ready = 0;
    bool is_pending = false;
  };

  u32 fetch(u64 pc);
  u32 latency(const Instruction& instruction, const Execution& execution);
  u32 branch(u64 pc, bool taken);
  u32 load(u64 address);
  u32 divide(Op op, u64 dividend, u64 divisor) const;

  static constexpr u64 kBranchEntries = 512;
  static constexpr int kPendingStores = 2;

  const Config config_;
  CpuCache instruction_cache_;
  u64 fetched_line_ = ~0ull;
  std::vector<u8> branch_counters_;  // two-bit saturating counters
  PendingStore stores_[kPendingStores];
  int next_store_ = 0;
  u64 now_ = 0;              // cycles so far
  u64 cache_used_ = 0;       // the last cycle in which the cache was read or written
  u8 loaded_register_ = 0;   // written by the load just before, 0 for none
};

}  // namespace cosim
