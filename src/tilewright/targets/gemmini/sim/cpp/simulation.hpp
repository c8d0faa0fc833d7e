// One simulation: memory, processor, accelerator and, when asked, the timing model.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conditions.hpp"
#include "config.hpp"
#include "elf.hpp"
#include "fault.hpp"
#include "memory.hpp"

namespace cosim {

struct Limits {
  std::optional<u64> cycles;
  u64 instructions = ~0ull;
  std::optional<double> host_s;
};

// What is done about DRAM accesses that no fence orders: a fault, or, for those that the modelled
// timing shows to come in order, a note in the result.
enum class OrderPolicy { fence, timing };

enum class Mode { functional, timed, timed_every_cycle };

// A cause of lost cycles and the first instruction it hit.
struct Hotspot {
  std::string cause;
  u64 pc = 0;
  u64 cycles = 0;
};

// Cycles that operands of products lost at one bank of the scratchpad.
struct BankLoss {
  std::string cause;
  std::string users;  // who wanted the bank
  int bank = 0;
  u64 cycles = 0;
  u64 first_pc = 0;   // the first instruction it hit
};

// Cycles in a row in which the array was idle. `cause` and `pc` are those of most of them.
struct Gap {
  u64 start = 0;  // its first cycle
  u64 cycles = 0;
  std::string cause;
  u64 pc = 0;
};

struct Result {
  std::string status = "ok";  // or fault, slower_than_limit, timeout
  std::optional<Fault> fault;
  u64 cycles = 0;  // 0 without timing
  u64 instructions = 0;
  u64 pc = 0;      // where the program stopped
  u64 macs = 0;
  u64 scratchpad_bytes = 0;
  u64 accumulator_bytes = 0;
  std::vector<std::vector<u8>> outputs;
  std::vector<std::vector<std::vector<u8>>> later_outputs;  // of each further call that finished
  u64 finished = 0;  // calls that ended in time and without a fault
  std::vector<std::pair<std::string, u64>> breakdown;
  std::vector<Hotspot> hotspots;
  std::vector<BankLoss> bank_losses;
  // Cycles by cause, of those in `breakdown` that exclude one another: before the first product,
  // in equal parts of the time that the array is busy, after the last product.
  std::vector<std::vector<u64>> phases;
  std::vector<Gap> gaps;                      // the longest ones, in order of time
  std::vector<std::pair<u64, u64>> executed;  // address of an instruction, how often it ran
  u64 computes = 0;                           // commands that let the array compute
  std::vector<UnorderedPair> unordered;  // that were not raced
  bool cpu_read_data = false;  // see Memory::cpu_read_data
  std::vector<std::pair<u64, Condition>> conditions;  // on data, by address
};

// An array a kernel takes.
struct Argument {
  u64 address = 0;
  std::vector<u8> bytes;
  bool writable = false;
  std::string name;
  bool given = true;  // the kernel may read the contents before the call
};

// Calls `symbol` with the arguments' addresses in a0..a7; an implicit fence ends the run.
// `outputs` holds the bytes of the writable arguments, in order.
// If `later` holds the arguments' bytes for further calls, these follow, without timing: static
// variables and the stack are as the call before left them, the accelerator is as after a reset. A
// fault or timeout of one of them is the result's, and ends the calls.
// `conditions` are recorded if `joins` are given.
// Throws std::invalid_argument for a file or arguments that cannot be loaded.
Result run_kernel(const Config& config, const Elf& elf, std::vector<Argument> arguments,
                  const std::vector<std::vector<std::vector<u8>>>& later,
                  const std::string& symbol, Mode mode, OrderPolicy order, const Limits& limits,
                  std::optional<Joins> joins = std::nullopt);

// Runs a bare-metal program from its entry until it writes to `tohost`. Cycles are those between
// its first two reads of mcycle. `outputs` holds the bytes of each (address, size) in `read`.
Result run_program(const Config& config, const Elf& elf,
                   std::vector<std::pair<u64, std::vector<u8>>> segments,
                   const std::vector<std::pair<u64, u64>>& read, Mode mode,
                   const Limits& limits);

}  // namespace cosim
