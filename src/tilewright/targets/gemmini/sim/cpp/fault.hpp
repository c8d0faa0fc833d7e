// What a program did that the hardware does not allow.
#pragma once

#include <optional>
#include <string>

#include "types.hpp"

namespace cosim {

enum class FaultKind {
  illegal_instruction,
  illegal_address,
  input_modified,
  local_out_of_bounds,
  limit_exceeded,
  uninitialised_read,
  unordered_dram_read,
  unordered_dram_write,
  raced_dram_access,
};

// Name as in the Python records (`FailureKind`).
const char* fault_name(FaultKind kind);

// Thrown where it is detected; the hart adds the program counter of the instruction at fault.
// `second_pc` is the other instruction involved: the store or load that an unordered access may
// overtake.
struct Fault {
  FaultKind kind;
  std::string message;
  u64 pc = 0;
  std::optional<u64> second_pc = std::nullopt;
};

// printf-style; messages are short.
[[noreturn, gnu::format(printf, 2, 3)]] void throw_fault(FaultKind kind, const char* format, ...);

}  // namespace cosim
