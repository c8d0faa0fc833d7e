// What each operation reads and writes, and which part of the pipeline carries it out.
#pragma once

#include "instruction.hpp"

namespace cosim {

enum class Kind : u8 {
  simple, load, store, branch, jump, jump_register, multiply, divide, csr, floating, float_divide
};

struct Traits {
  Kind kind = Kind::simple;
  u8 bytes = 0;  // of a load or store
  bool reads_rs1 = false;
  bool reads_rs2 = false;
  bool writes_rd = false;
  u8 float_sources = 0;  // a bit for each of rs1, rs2, rs3
  bool writes_float = false;
};

const Traits& traits_of(Op op);

}  // namespace cosim
