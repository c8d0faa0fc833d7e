#include "traits.hpp"

#include <array>

namespace cosim {
namespace {

bool between(Op op, Op first, Op last) { return op >= first && op <= last; }

Traits integer_traits(Op op) {
  Traits t;
  t.reads_rs1 = !between(op, Op::lui, Op::jal) && !between(op, Op::csrrwi, Op::csrrci) &&
                op != Op::fence;
  t.reads_rs2 = between(op, Op::beq, Op::bgeu) || between(op, Op::sb, Op::sd) ||
                between(op, Op::add, Op::sraw) || between(op, Op::mul, Op::remuw) ||
                op == Op::rocc;
  t.writes_rd = !between(op, Op::beq, Op::bgeu) && !between(op, Op::sb, Op::sd) &&
                !between(op, Op::fence, Op::ebreak) && op != Op::rocc;
  if (between(op, Op::beq, Op::bgeu)) t.kind = Kind::branch;
  if (op == Op::jal) t.kind = Kind::jump;
  if (op == Op::jalr) t.kind = Kind::jump_register;
  if (between(op, Op::csrrw, Op::csrrci)) t.kind = Kind::csr;
  if (between(op, Op::mul, Op::mulhu) || op == Op::mulw) t.kind = Kind::multiply;
  if (between(op, Op::div, Op::remu) || between(op, Op::divw, Op::remuw)) t.kind = Kind::divide;
  return t;
}

Traits memory_traits(Op op) {
  constexpr u8 kBytes[] = {1, 2, 4, 8, 1, 2, 4, 1, 2, 4, 8};  // lb .. sd
  Traits t;
  t.reads_rs1 = true;
  if (between(op, Op::lb, Op::sd)) {
    t.bytes = kBytes[static_cast<int>(op) - static_cast<int>(Op::lb)];
    t.kind = op <= Op::lwu ? Kind::load : Kind::store;
    t.reads_rs2 = t.kind == Kind::store;
    t.writes_rd = t.kind == Kind::load;
    return t;
  }
  t.bytes = op == Op::flw || op == Op::fsw ? 4 : 8;
  t.kind = op == Op::flw || op == Op::fld ? Kind::load : Kind::store;
  t.float_sources = t.kind == Kind::store ? 2 : 0;
  t.writes_float = t.kind == Kind::load;
  return t;
}

Traits float_traits(Op op) {
  Traits t;
  t.kind = Kind::floating;
  if (op == Op::fdiv_s || op == Op::fsqrt_s || op == Op::fdiv_d || op == Op::fsqrt_d) {
    t.kind = Kind::float_divide;
  }
  const bool from_integer = between(op, Op::fcvt_s_w, Op::fcvt_s_lu) || op == Op::fmv_w_x ||
                            between(op, Op::fcvt_d_w, Op::fcvt_d_lu) || op == Op::fmv_d_x;
  const bool has_three = between(op, Op::fmadd_s, Op::fnmadd_s) ||
                         between(op, Op::fmadd_d, Op::fnmadd_d);
  const bool has_two = has_three || between(op, Op::fadd_s, Op::fdiv_s) ||
                       between(op, Op::fadd_d, Op::fdiv_d) ||
                       between(op, Op::fsgnj_s, Op::fmax_s) || between(op, Op::feq_s, Op::fle_s) ||
                       between(op, Op::fsgnj_d, Op::fmax_d) || between(op, Op::feq_d, Op::fle_d);
  t.reads_rs1 = from_integer;
  t.float_sources = from_integer ? 0 : has_three ? 7 : has_two ? 3 : 1;
  t.writes_rd = between(op, Op::fcvt_w_s, Op::fcvt_lu_s) || op == Op::fmv_x_w ||
                between(op, Op::fclass_s, Op::fle_s) || between(op, Op::fcvt_w_d, Op::fcvt_lu_d) ||
                op == Op::fmv_x_d || between(op, Op::fclass_d, Op::fle_d);
  t.writes_float = !t.writes_rd;
  return t;
}

const auto kTraits = [] {
  std::array<Traits, static_cast<std::size_t>(Op::rocc) + 1> traits;
  for (std::size_t i = 0; i < traits.size(); i++) {
    const Op op = static_cast<Op>(i);
    const bool moves = between(op, Op::lb, Op::sd) || between(op, Op::flw, Op::fsd);
    traits[i] = moves                                     ? memory_traits(op)
                : between(op, Op::fmadd_s, Op::fcvt_d_s) ? float_traits(op)
                                                          : integer_traits(op);
  }
  return traits;
}();

}  // namespace

const Traits& traits_of(Op op) { return kTraits[static_cast<std::size_t>(op)]; }

}  // namespace cosim
