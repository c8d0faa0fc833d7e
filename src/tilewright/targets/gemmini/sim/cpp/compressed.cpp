// Expands the 16-bit instructions of RV64DC into the 32-bit instructions they stand for.
#include "instruction.hpp"

namespace cosim {
namespace {

// A 16-bit instruction, with the pieces of its immediates gathered as the manual lists them.
struct Half {
  u32 word;

  u32 bit(int from, int to) const { return ((word >> from) & 1) << to; }
  u32 field(int high, int low, int to) const {
    return ((word >> low) & ((1u << (high - low + 1)) - 1)) << to;
  }
  u32 rd() const { return field(11, 7, 0); }
  u32 rs2() const { return field(6, 2, 0); }
  u32 rd_short() const { return field(4, 2, 0) + 8; }   // also rs2'
  u32 rs1_short() const { return field(9, 7, 0) + 8; }  // also rd'
  u32 immediate6() const {
    const u32 value = field(6, 2, 0) | bit(12, 5);
    return value & 32 ? value | ~63u : value;
  }
  u32 shift() const { return field(6, 2, 0) | bit(12, 5); }
};

constexpr u32 kReturn = 1;
constexpr u32 kStack = 2;

u32 i_type(u32 opcode, u32 f3, u32 rd, u32 rs1, u32 imm) {
  return opcode | rd << 7 | f3 << 12 | rs1 << 15 | imm << 20;
}

u32 s_type(u32 opcode, u32 f3, u32 rs1, u32 rs2, u32 imm) {
  return opcode | (imm & 31) << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 | (imm >> 5) << 25;
}

u32 r_type(u32 opcode, u32 f3, u32 f7, u32 rd, u32 rs1, u32 rs2) {
  return opcode | rd << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 | f7 << 25;
}

u32 b_type(u32 f3, u32 rs1, u32 imm) {
  return 0x63 | ((imm >> 11) & 1) << 7 | ((imm >> 1) & 15) << 8 | f3 << 12 | rs1 << 15 |
         ((imm >> 5) & 63) << 25 | ((imm >> 12) & 1) << 31;
}

u32 jump(u32 rd, u32 imm) {
  return 0x6f | rd << 7 | ((imm >> 12) & 255) << 12 | ((imm >> 11) & 1) << 20 |
         ((imm >> 1) & 1023) << 21 | ((imm >> 20) & 1) << 31;
}

u32 sign_extend(u32 value, int width) {
  const u32 sign = 1u << (width - 1);
  return value & sign ? value | ~(sign - 1) : value;
}

u32 offset_double(const Half& h) { return h.field(12, 10, 3) | h.field(6, 5, 6); }
u32 offset_word(const Half& h) { return h.field(12, 10, 3) | h.bit(6, 2) | h.bit(5, 6); }

u32 quadrant0(const Half& h) {
  const u32 reg = h.rd_short();
  const u32 base = h.rs1_short();
  switch (h.word >> 13) {
    case 0: {
      const u32 imm = h.field(12, 11, 4) | h.field(10, 7, 6) | h.bit(6, 2) | h.bit(5, 3);
      return imm ? i_type(0x13, 0, reg, kStack, imm) : 0;
    }
    case 1: return i_type(0x07, 3, reg, base, offset_double(h));
    case 2: return i_type(0x03, 2, reg, base, offset_word(h));
    case 3: return i_type(0x03, 3, reg, base, offset_double(h));
    case 5: return s_type(0x27, 3, base, reg, offset_double(h));
    case 6: return s_type(0x23, 2, base, reg, offset_word(h));
    case 7: return s_type(0x23, 3, base, reg, offset_double(h));
    default: return 0;
  }
}

// Register arithmetic of quadrant 1: shifts, andi, and the two-register operations.
u32 arithmetic(const Half& h) {
  const u32 rd = h.rs1_short();
  switch ((h.word >> 10) & 3) {
    case 0: return i_type(0x13, 5, rd, rd, h.shift());
    case 1: return i_type(0x13, 5, rd, rd, h.shift() | 0x400);
    case 2: return i_type(0x13, 7, rd, rd, h.immediate6());
    default: break;
  }
  const u32 rs2 = h.rd_short();
  switch (h.bit(12, 2) | h.field(6, 5, 0)) {
    case 0: return r_type(0x33, 0, 0x20, rd, rd, rs2);
    case 1: return r_type(0x33, 4, 0, rd, rd, rs2);
    case 2: return r_type(0x33, 6, 0, rd, rd, rs2);
    case 3: return r_type(0x33, 7, 0, rd, rd, rs2);
    case 4: return r_type(0x3b, 0, 0x20, rd, rd, rs2);
    case 5: return r_type(0x3b, 0, 0, rd, rd, rs2);
    default: return 0;
  }
}

u32 lui_or_stack(const Half& h) {
  if (h.rd() == kStack) {
    const u32 imm = sign_extend(
        h.bit(12, 9) | h.bit(6, 4) | h.bit(5, 6) | h.field(4, 3, 7) | h.bit(2, 5), 10);
    return imm ? i_type(0x13, 0, kStack, kStack, imm) : 0;
  }
  const u32 imm = h.immediate6();
  return imm ? 0x37 | h.rd() << 7 | imm << 12 : 0;
}

u32 quadrant1(const Half& h) {
  switch (h.word >> 13) {
    case 0: return i_type(0x13, 0, h.rd(), h.rd(), h.immediate6());
    case 1: return h.rd() ? i_type(0x1b, 0, h.rd(), h.rd(), h.immediate6()) : 0;
    case 2: return i_type(0x13, 0, h.rd(), 0, h.immediate6());
    case 3: return lui_or_stack(h);
    case 4: return arithmetic(h);
    case 5: {
      const u32 imm = h.bit(12, 11) | h.bit(11, 4) | h.field(10, 9, 8) | h.bit(8, 10) |
                      h.bit(7, 6) | h.bit(6, 7) | h.field(5, 3, 1) | h.bit(2, 5);
      return jump(0, sign_extend(imm, 12));
    }
    default: {
      const u32 imm = h.bit(12, 8) | h.field(11, 10, 3) | h.field(6, 5, 6) | h.field(4, 3, 1) |
                      h.bit(2, 5);
      return b_type((h.word >> 13) & 1, h.rs1_short(), sign_extend(imm, 9));
    }
  }
}

// jr, jalr, mv, add and ebreak.
u32 jump_or_add(const Half& h) {
  const bool links = (h.word >> 12) & 1;
  if (h.rs2() != 0) return r_type(0x33, 0, 0, h.rd(), links ? h.rd() : 0, h.rs2());
  if (h.rd() == 0) return links ? 0x00100073 : 0;
  return i_type(0x67, 0, links ? kReturn : 0, h.rd(), 0);
}

u32 quadrant2(const Half& h) {
  const u32 load_double = h.bit(12, 5) | h.field(6, 5, 3) | h.field(4, 2, 6);
  const u32 load_word = h.bit(12, 5) | h.field(6, 4, 2) | h.field(3, 2, 6);
  const u32 store_double = h.field(12, 10, 3) | h.field(9, 7, 6);
  const u32 store_word = h.field(12, 9, 2) | h.field(8, 7, 6);
  switch (h.word >> 13) {
    case 0: return i_type(0x13, 1, h.rd(), h.rd(), h.shift());
    case 1: return i_type(0x07, 3, h.rd(), kStack, load_double);
    case 2: return h.rd() ? i_type(0x03, 2, h.rd(), kStack, load_word) : 0;
    case 3: return h.rd() ? i_type(0x03, 3, h.rd(), kStack, load_double) : 0;
    case 4: return jump_or_add(h);
    case 5: return s_type(0x27, 3, kStack, h.rs2(), store_double);
    case 6: return s_type(0x23, 2, kStack, h.rs2(), store_word);
    default: return s_type(0x23, 3, kStack, h.rs2(), store_double);
  }
}

}  // namespace

u32 expand_compressed(u16 half) {
  const Half h{half};
  switch (half & 3) {
    case 0: return quadrant0(h);
    case 1: return quadrant1(h);
    default: return quadrant2(h);
  }
}

}  // namespace cosim
