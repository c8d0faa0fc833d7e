// The order of DRAM accesses that the accelerator does not keep: which ones a program leaves open,
// and what a run did about them.
#pragma once

#include <deque>
#include <vector>

#include "fault.hpp"
#include "types.hpp"

namespace cosim {

// What to do about an access that no fence orders after an earlier one to the same bytes.
enum class Ordering {
  refuse,  // throw a Fault at once
  record,  // leave it to the timing model, which knows whether it was raced
  ignore,  // without timing there is nothing to say
};

// Two accesses to the same bytes, at least one of them a write and the earlier one by the
// accelerator, without a fence in between.
struct OpenOrder {
  FaultKind kind = FaultKind::unordered_dram_read;
  bool is_behind_load = false;  // the earlier one is a move-in, else a move-out
  u64 earlier_row = 0;          // its number among all rows moved in, or out
  u64 address = 0;              // of the later access
  u64 bytes = 0;
  u64 pc = 0;
  u64 earlier_pc = 0;
  std::string message;
};

// All pairs of the same two instructions.
struct UnorderedPair {
  OpenOrder first;
  u64 count = 0;
};

// What was stored over, for a run in which a read overtakes the store: the last rows moved out.
class StoreLog {
 public:
  void add(u64 row, u64 address, const u8* before, u64 bytes);

  // `bytes` at `address` as they were before row `row` and all later ones were stored.
  std::vector<u8> before(u64 row, u64 address, const u8* now, u64 bytes) const;

 private:
  struct Row {
    u64 number = 0;
    u64 address = 0;
    std::vector<u8> before;
  };
  // More rows than commands that can be under way hold.
  static constexpr std::size_t kRows = 1 << 16;
  std::deque<Row> rows_;
};

}  // namespace cosim
