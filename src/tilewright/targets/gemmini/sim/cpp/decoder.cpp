#include "instruction.hpp"

#include <initializer_list>

namespace cosim {
namespace {

u32 bits(u32 word, int high, int low) { return (word >> low) & ((1u << (high - low + 1)) - 1); }

i32 immediate_i(u32 word) { return static_cast<i32>(word) >> 20; }

i32 immediate_s(u32 word) {
  return (static_cast<i32>(word) >> 25) * 32 + static_cast<i32>(bits(word, 11, 7));
}

i32 immediate_b(u32 word) {
  return (static_cast<i32>(word) >> 31) * 4096 + static_cast<i32>(bits(word, 7, 7) << 11) +
         static_cast<i32>(bits(word, 30, 25) << 5) + static_cast<i32>(bits(word, 11, 8) << 1);
}

i32 immediate_u(u32 word) { return static_cast<i32>(word & 0xfffff000u); }

i32 immediate_j(u32 word) {
  return (static_cast<i32>(word) >> 31) * (1 << 20) + static_cast<i32>(bits(word, 19, 12) << 12) +
         static_cast<i32>(bits(word, 20, 20) << 11) + static_cast<i32>(bits(word, 30, 21) << 1);
}

Op branch(u32 f3) {
  static constexpr Op kOps[8] = {Op::beq, Op::bne, Op::illegal, Op::illegal,
                                 Op::blt, Op::bge, Op::bltu,    Op::bgeu};
  return kOps[f3];
}

Op load(u32 f3) {
  static constexpr Op kOps[8] = {Op::lb,  Op::lh,  Op::lw,  Op::ld,
                                 Op::lbu, Op::lhu, Op::lwu, Op::illegal};
  return kOps[f3];
}

Op store(u32 f3) {
  static constexpr Op kOps[8] = {Op::sb,      Op::sh,      Op::sw,      Op::sd,
                                 Op::illegal, Op::illegal, Op::illegal, Op::illegal};
  return kOps[f3];
}

// Immediate arithmetic; shift amounts have 6 bits, or 5 in the 32-bit forms.
void decode_immediate(u32 word, Instruction& out) {
  static constexpr Op kOps[8] = {Op::addi, Op::slli, Op::slti, Op::sltiu,
                                 Op::xori, Op::illegal, Op::ori, Op::andi};
  const u32 f3 = bits(word, 14, 12);
  const u32 f6 = bits(word, 31, 26);
  out.op = kOps[f3];
  out.imm = immediate_i(word);
  if (f3 != 1 && f3 != 5) return;
  out.imm &= 63;
  if (f3 == 1) out.op = f6 == 0 ? Op::slli : Op::illegal;
  if (f3 == 5) out.op = f6 == 0 ? Op::srli : f6 == 0x10 ? Op::srai : Op::illegal;
}

void decode_immediate_32(u32 word, Instruction& out) {
  const u32 f3 = bits(word, 14, 12);
  const u32 f7 = bits(word, 31, 25);
  out.imm = immediate_i(word);
  if (f3 == 0) out.op = Op::addiw;
  if (f3 == 0) return;
  out.imm &= 31;
  if (f3 == 1 && f7 == 0) out.op = Op::slliw;
  if (f3 == 5 && f7 == 0) out.op = Op::srliw;
  if (f3 == 5 && f7 == 0x20) out.op = Op::sraiw;
}

Op register_op(u32 f3, u32 f7) {
  static constexpr Op kBase[8] = {Op::add, Op::sll, Op::slt, Op::sltu,
                                  Op::xor_, Op::srl, Op::or_, Op::and_};
  static constexpr Op kMultiply[8] = {Op::mul, Op::mulh, Op::mulhsu, Op::mulhu,
                                      Op::div, Op::divu, Op::rem,    Op::remu};
  if (f7 == 0) return kBase[f3];
  if (f7 == 1) return kMultiply[f3];
  if (f7 == 0x20 && f3 == 0) return Op::sub;
  if (f7 == 0x20 && f3 == 5) return Op::sra;
  return Op::illegal;
}

Op register_op_32(u32 f3, u32 f7) {
  static constexpr Op kMultiply[8] = {Op::mulw, Op::illegal, Op::illegal, Op::illegal,
                                      Op::divw, Op::divuw,   Op::remw,    Op::remuw};
  if (f7 == 1) return kMultiply[f3];
  if (f7 == 0 && f3 == 0) return Op::addw;
  if (f7 == 0 && f3 == 1) return Op::sllw;
  if (f7 == 0 && f3 == 5) return Op::srlw;
  if (f7 == 0x20 && f3 == 0) return Op::subw;
  if (f7 == 0x20 && f3 == 5) return Op::sraw;
  return Op::illegal;
}

Op system(u32 word) {
  static constexpr Op kCsr[8] = {Op::illegal, Op::csrrw,  Op::csrrs,  Op::csrrc,
                                 Op::illegal, Op::csrrwi, Op::csrrsi, Op::csrrci};
  if (word == 0x00000073) return Op::ecall;
  if (word == 0x00100073) return Op::ebreak;
  return kCsr[bits(word, 14, 12)];
}

// The distance between an operation's single and double precision form.
Op in_precision(Op single, bool is_double) {
  const int distance = static_cast<int>(Op::fadd_d) - static_cast<int>(Op::fadd_s);
  return is_double ? static_cast<Op>(static_cast<int>(single) + distance) : single;
}

Op pick(u32 index, std::initializer_list<Op> ops) {
  return index < ops.size() ? ops.begin()[index] : Op::illegal;
}

// OP-FP: funct7 is an operation and a format, 0 for single and 1 for double precision.
Op floating(u32 word) {
  const u32 f3 = bits(word, 14, 12);
  const u32 rs2 = bits(word, 24, 20);
  const u32 format = bits(word, 26, 25);
  const u32 f5 = bits(word, 31, 27);
  if (format > 1) return Op::illegal;
  if (f5 == 0x08) {
    if (format == 0 && rs2 == 1) return Op::fcvt_s_d;
    return format == 1 && rs2 == 0 ? Op::fcvt_d_s : Op::illegal;
  }
  Op op = Op::illegal;
  switch (f5) {
    case 0x00: op = Op::fadd_s; break;
    case 0x01: op = Op::fsub_s; break;
    case 0x02: op = Op::fmul_s; break;
    case 0x03: op = Op::fdiv_s; break;
    case 0x0b: op = rs2 == 0 ? Op::fsqrt_s : Op::illegal; break;
    case 0x04: op = pick(f3, {Op::fsgnj_s, Op::fsgnjn_s, Op::fsgnjx_s}); break;
    case 0x05: op = pick(f3, {Op::fmin_s, Op::fmax_s}); break;
    case 0x14: op = pick(f3, {Op::fle_s, Op::flt_s, Op::feq_s}); break;
    case 0x18: op = pick(rs2, {Op::fcvt_w_s, Op::fcvt_wu_s, Op::fcvt_l_s, Op::fcvt_lu_s}); break;
    case 0x1a: op = pick(rs2, {Op::fcvt_s_w, Op::fcvt_s_wu, Op::fcvt_s_l, Op::fcvt_s_lu}); break;
    case 0x1c: op = rs2 == 0 ? pick(f3, {Op::fmv_x_w, Op::fclass_s}) : Op::illegal; break;
    case 0x1e: op = rs2 == 0 && f3 == 0 ? Op::fmv_w_x : Op::illegal; break;
    default: break;
  }
  return op == Op::illegal ? op : in_precision(op, format == 1);
}

Op fused(u32 opcode, u32 format) {
  if (format > 1) return Op::illegal;
  const Op single = pick((opcode >> 2) & 3, {Op::fmadd_s, Op::fmsub_s, Op::fnmsub_s, Op::fnmadd_s});
  return in_precision(single, format == 1);
}

// The accelerator's commands read two registers and write none: xd = 0, xs1 = xs2 = 1.
Op accelerator(u32 word) { return bits(word, 14, 12) == 3 ? Op::rocc : Op::illegal; }

void decode_operation(u32 word, Instruction& out) {
  const u32 f3 = out.rounding;
  const u32 f7 = bits(word, 31, 25);
  const u32 opcode = word & 0x7f;
  switch (opcode) {
    case 0x37: out.op = Op::lui; out.imm = immediate_u(word); break;
    case 0x17: out.op = Op::auipc; out.imm = immediate_u(word); break;
    case 0x6f: out.op = Op::jal; out.imm = immediate_j(word); break;
    case 0x67: out.op = f3 == 0 ? Op::jalr : Op::illegal; out.imm = immediate_i(word); break;
    case 0x63: out.op = branch(f3); out.imm = immediate_b(word); break;
    case 0x03: out.op = load(f3); out.imm = immediate_i(word); break;
    case 0x23: out.op = store(f3); out.imm = immediate_s(word); break;
    case 0x13: decode_immediate(word, out); break;
    case 0x1b: decode_immediate_32(word, out); break;
    case 0x33: out.op = register_op(f3, f7); break;
    case 0x3b: out.op = register_op_32(f3, f7); break;
    case 0x0f: out.op = f3 <= 1 ? Op::fence : Op::illegal; break;
    case 0x73: out.op = system(word); out.imm = immediate_i(word) & 0xfff; break;
    case 0x07: out.op = f3 == 2 ? Op::flw : f3 == 3 ? Op::fld : Op::illegal;
               out.imm = immediate_i(word); break;
    case 0x27: out.op = f3 == 2 ? Op::fsw : f3 == 3 ? Op::fsd : Op::illegal;
               out.imm = immediate_s(word); break;
    case 0x43: case 0x47: case 0x4b: case 0x4f: out.op = fused(opcode, f7 & 3); break;
    case 0x53: out.op = floating(word); break;
    case 0x7b: out.op = accelerator(word); out.imm = static_cast<i32>(f7); break;
    default: break;
  }
}

}  // namespace

Instruction decode(u32 word) {
  const bool is_compressed = (word & 3) != 3;
  if (is_compressed) word = expand_compressed(static_cast<u16>(word));
  Instruction out;
  out.length = is_compressed ? 2 : 4;
  out.rd = static_cast<u8>(bits(word, 11, 7));
  out.rs1 = static_cast<u8>(bits(word, 19, 15));
  out.rs2 = static_cast<u8>(bits(word, 24, 20));
  out.rs3 = static_cast<u8>(bits(word, 31, 27));
  out.rounding = static_cast<u8>(bits(word, 14, 12));
  decode_operation(word, out);
  return out;
}

}  // namespace cosim
