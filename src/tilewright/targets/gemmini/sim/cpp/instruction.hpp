// RV64IMFDC instructions, decoded.
#pragma once

#include "types.hpp"

namespace cosim {

enum class Op : u8 {
  illegal,
  // RV64I
  lui, auipc, jal, jalr,
  beq, bne, blt, bge, bltu, bgeu,
  lb, lh, lw, ld, lbu, lhu, lwu,
  sb, sh, sw, sd,
  addi, slti, sltiu, xori, ori, andi, slli, srli, srai,
  addiw, slliw, srliw, sraiw,
  add, sub, sll, slt, sltu, xor_, srl, sra, or_, and_,
  addw, subw, sllw, srlw, sraw,
  fence, ecall, ebreak,
  csrrw, csrrs, csrrc, csrrwi, csrrsi, csrrci,
  // M
  mul, mulh, mulhsu, mulhu, div, divu, rem, remu,
  mulw, divw, divuw, remw, remuw,
  // F and D
  flw, fld, fsw, fsd,
  fmadd_s, fmsub_s, fnmsub_s, fnmadd_s,
  fadd_s, fsub_s, fmul_s, fdiv_s, fsqrt_s,
  fsgnj_s, fsgnjn_s, fsgnjx_s, fmin_s, fmax_s,
  fcvt_w_s, fcvt_wu_s, fcvt_l_s, fcvt_lu_s,
  fcvt_s_w, fcvt_s_wu, fcvt_s_l, fcvt_s_lu,
  fmv_x_w, fmv_w_x, fclass_s, feq_s, flt_s, fle_s,
  fmadd_d, fmsub_d, fnmsub_d, fnmadd_d,
  fadd_d, fsub_d, fmul_d, fdiv_d, fsqrt_d,
  fsgnj_d, fsgnjn_d, fsgnjx_d, fmin_d, fmax_d,
  fcvt_w_d, fcvt_wu_d, fcvt_l_d, fcvt_lu_d,
  fcvt_d_w, fcvt_d_wu, fcvt_d_l, fcvt_d_lu,
  fmv_x_d, fmv_d_x, fclass_d, feq_d, flt_d, fle_d,
  fcvt_s_d, fcvt_d_s,
  // The accelerator's custom-3 opcode: `funct` is in `imm`.
  rocc,
};

struct Instruction {
  Op op = Op::illegal;
  u8 rd = 0;
  u8 rs1 = 0;
  u8 rs2 = 0;
  u8 rs3 = 0;
  u8 rounding = 0;  // the rm field; 7 means "as fcsr says"
  u8 length = 0;    // 2 or 4 bytes; 0: not decoded yet
  i32 imm = 0;      // sign-extended immediate, shift amount or CSR number
};

// Decodes the instruction whose first 32 bits are `word` (the upper 16 are ignored for a
// compressed one). An encoding that is not RV64IMFDC gives `Op::illegal`.
Instruction decode(u32 word);

// The 32-bit instruction that a compressed one stands for, or 0 (which is illegal).
u32 expand_compressed(u16 half);

}  // namespace cosim
