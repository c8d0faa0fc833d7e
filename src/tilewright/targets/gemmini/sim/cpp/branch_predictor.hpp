// Rocket's branch target buffer, branch history table and return address stack.
#pragma once

#include <cstddef>
#include <vector>

#include "config.hpp"
#include "types.hpp"

namespace cosim {

// What a jump or branch costs the front of the pipeline.
enum class Redirect : u8 {
  none,      // the next instruction was fetched in time
  decoded,   // found when the fetched word was decoded: one fetch is thrown away
  resolved,  // found when the instruction executed: a misprediction
};

class BranchPredictor {
 public:
  explicit BranchPredictor(const Config& config);

  // `packet` is the address of the fetched word that holds the end of the instruction.
  // `is_fetch_bound`: few fetched words wait to be decoded, so that a target is worth keeping.
  Redirect branch(u64 packet, bool is_taken, bool is_fetch_bound);
  Redirect jump(u64 packet, bool is_fetch_bound);
  Redirect jump_register(u64 packet, u64 target, bool is_return, bool is_fetch_bound);
  void call(u64 return_address);

 private:
  struct Target {
    u64 packet = ~0ull;
    u64 target = 0;
    u64 used = 0;
  };

  Redirect decoded_target(u64 packet, bool is_fetch_bound);
  Target* find(u64 packet);
  void keep(u64 packet, u64 target);
  std::size_t index(u64 packet, u32 history) const;

  std::vector<Target> targets_;
  std::vector<u8> directions_;
  std::vector<u64> returns_;
  std::size_t return_capacity_;
  u32 history_ = 0;        // the last eight outcomes, newest in bit 7
  u32 older_history_ = 0;  // without the last of them
  u64 last_branch_ = 0;    // the packet of the last branch
  u64 uses_ = 0;
};

}  // namespace cosim
