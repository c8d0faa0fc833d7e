// The F and D extensions: NaN boxing, rounding modes and exception flags.
#pragma once

#include "instruction.hpp"
#include "types.hpp"

namespace cosim {

struct FloatState {
  u64 f[32] = {};    // single-precision values are NaN-boxed
  u32 flags = 0;     // NX 1, UF 2, OF 4, DZ 8, NV 16
  u32 rounding = 0;  // frm
};

// Executes one F or D operation other than a load or store; integer results go to `x`.
// Throws a Fault for a reserved rounding mode, and for round-to-nearest-away in an operation
// other than a conversion to integer (compilers emit it only there; it is not modelled).
void execute_float(const Instruction& instruction, u64 (&x)[32], FloatState& state);

}  // namespace cosim
