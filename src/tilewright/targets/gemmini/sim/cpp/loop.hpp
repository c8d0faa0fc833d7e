// A loop that the accelerator unrolls by itself: five streams of ordinary commands, as the hardware
// loop unrollers of the public Gemmini RTL (LoopMatmul, LoopConv) send them.
#pragma once

#include <memory>

#include "config.hpp"
#include "types.hpp"

namespace cosim {

struct CommandWords {
  u8 funct = 0;
  u64 rs1 = 0;
  u64 rs2 = 0;
};

// The streams of a loop. Of a convolution, A is the input, B the weights and D the bias.
enum LoopRole : int { kLoadA, kLoadB, kLoadD, kExecute, kStore, kLoopRoles };

// One stream. `i`, `j` and `k` are the blocks of the next command, of matrix loops only.
class LoopStream {
 public:
  virtual ~LoopStream() = default;
  virtual CommandWords command() const = 0;
  virtual void advance() = 0;

  bool is_done = false;
  u32 i = 0;
  u32 j = 0;
  u32 k = 0;
};

// What the streams need to know about the machine.
struct LoopGeometry {
  explicit LoopGeometry(const Config& config);
  u32 dim = 0;
  u32 input_bytes = 0;        // of an element in the scratchpad
  u32 accumulator_bytes = 0;  // and of one in the accumulator
  u32 max_blocks = 0;         // of dim columns that one move carries: to the scratchpad
  u32 max_accumulator_blocks = 0;
  u32 half_scratchpad = 0;    // rows: each of two loops in flight has its half
  u32 half_accumulator = 0;
};

// Where a loop's operands lie in local memory: rows.
struct LoopPlaces {
  u32 a_start = 0;
  u32 b_end = 0;
  u32 accumulator_start = 0;
};

struct LoopLocals {
  u64 scratchpad_rows = 0;
  u64 accumulator_rows = 0;
};

// A configured loop.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual std::unique_ptr<LoopStream> stream(LoopRole role) const = 0;
  virtual bool is_convolution() const = 0;
  // Whether products (k, j, i) may be sent, as far as the loads of A and B are concerned.
  virtual bool is_loaded(const LoopStream& execute, const LoopStream& a,
                         const LoopStream& b) const = 0;
  // Whether a store may be sent while products are.
  virtual bool is_computed(const LoopStream& store, const LoopStream& execute) const = 0;
};

inline u64 pack_tile(u32 address, u64 cols, u64 rows) {
  return static_cast<u64>(address) | cols << 32 | rows << 48;
}

}  // namespace cosim
