// What an instruction read and computed in each call, as hashes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "types.hpp"

namespace cosim {

// The values that an instruction read, or computed, in one call, in their order.
struct Sequence {
  u64 all = 0;   // a hash of all values; 0 if there was none
  u64 only = 0;  // a hash of the value, if it was always the same, or else 0

  void add(u64 value);
  bool differs(const Sequence& other) const;
};

// A value that an instruction reads. `producer` is the address of the instruction that computed it
// from data, or 0.
struct Operand {
  bool is_data = false;
  u64 value = 0;
  u64 producer = 0;
};

// An instruction in one of the calls in which it read data.
struct CallRecord {
  u64 call = 0;
  Sequence operands;               // those that are data, together
  Sequence results;
  std::array<Sequence, 3> values;  // of each operand that was computed from data
};

// A branch or comparison and its results, another instruction that computes a number, or a jump to
// an address in a register.
struct Condition {
  u64 pc = 0;
  bool is_jump = false;
  bool is_number = false;
  bool is_on_data = false;
  bool is_kept = false;           // it read what an earlier call left, another value in each call
  bool was_false = false;
  bool was_true = false;
  bool is_settled = false;        // nothing of it is the same in all calls
  u32 label = 0;                  // of its results
  std::vector<CallRecord> calls;  // those in which the instruction read data
  std::array<std::vector<u64>, 3> producers;  // of each operand

  // `result` is missing if it may be the same in all calls.
  void record(u64 call, const std::array<Operand, 3>& operands, std::optional<u64> result);
};

}  // namespace cosim
