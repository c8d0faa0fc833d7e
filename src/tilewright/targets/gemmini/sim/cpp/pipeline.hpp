// How many cycles Rocket's in-order pipeline takes for each instruction, apart from waiting for
// memory and for the accelerator: fetch and branch prediction, operands that are not ready,
// the multiplier and divider, and loads that follow pending stores.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "branch_predictor.hpp"
#include "config.hpp"
#include "cpu_cache.hpp"
#include "instruction.hpp"
#include "types.hpp"

namespace cosim {

// What an instruction did, as far as its time depends on it.
struct Execution {
  u64 pc = 0;
  u64 address = 0;  // of a load or store
  u64 first = 0;    // rs1 and rs2 before it
  u64 second = 0;
  u64 next_pc = 0;
};

class Pipeline {
 public:
  explicit Pipeline(const Config& config);

  // Cycles from the execution of the instruction before to that of this one.
  u32 cycles(const Instruction& instruction, const Execution& execution);

  // The address that the last instruction was fetched from if the cache did not hold it.
  std::optional<u64> fetch_miss() const { return fetch_miss_; }

  // How often each branch or jump was mispredicted, by its address.
  const std::unordered_map<u64, u64>& mispredicted() const { return mispredicted_; }

 private:
  // A store on its way into the data cache. It is written in a cycle without a load.
  struct PendingStore {
    u64 word = 0;
    u32 bytes = 0;  // one bit each
    u64 ready = 0;
  };

  u64 fetch(u64 pc, int length);
  void jump(const Instruction& instruction, const Execution& execution, u64 now);
  u64 load(u64 address, u32 size, u64 now);
  void drain_stores(u64 now);
  u32 multiply_cycles(Op op, u64 multiplier) const;
  u32 divide_cycles(Op op, u64 dividend, u64 divisor) const;

  const Config config_;
  int line_shift_ = 0;
  CpuCache instruction_cache_;
  BranchPredictor predictor_;
  std::optional<u64> fetch_miss_;
  std::unordered_map<u64, u64> mispredicted_;

  // Times are cycles in the execute stage.
  u64 now_ = 0;
  u64 next_pc_ = 0;
  u64 packet_ = ~0ull;       // the fetched word in use
  u64 packet_ready_ = 0;     // when it can be executed
  u64 fetched_line_ = ~0ull;
  u64 ready_[32] = {};       // when the value of each register can be used
  u64 float_ready_[32] = {};
  u64 unit_done_ = 0;        // the multiplier and divider: when its result is written
  u8 unit_register_ = 0;     // the register it writes

  std::vector<PendingStore> stores_;  // oldest first
  u64 cache_free_ = 0;                // when the next store can be written
  u64 first_load_ = 0;                // the last loads without a cycle between them
  u64 last_load_ = 0;
};

}  // namespace cosim
