#include "pipeline.hpp"

#include <algorithm>
#include <bit>

#include "traits.hpp"

namespace cosim {
namespace {

constexpr u64 kPacketBytes = 4;  // fetched at once
constexpr u64 kWordBytes = 8;    // of the data cache

int significant_bits(u64 value) { return static_cast<int>(std::bit_width(value)); }

}  // namespace

Pipeline::Pipeline(const Config& config)
    : config_(config), instruction_cache_(config), predictor_(config) {
  while ((1 << line_shift_) < config.l2_line_bytes) line_shift_++;
}

u32 Pipeline::cycles(const Instruction& in, const Execution& execution) {
  const Traits& traits = traits_of(in.op);
  const u64 before = now_;
  u64 now = std::max(before + 1, fetch(execution.pc, in.length));
  if (traits.reads_rs1) now = std::max(now, ready_[in.rs1]);
  if (traits.reads_rs2) now = std::max(now, ready_[in.rs2]);
  if (traits.writes_rd) now = std::max(now, ready_[in.rd]);
  if (traits.float_sources & 1) now = std::max(now, float_ready_[in.rs1]);
  if (traits.float_sources & 2) now = std::max(now, float_ready_[in.rs2]);
  if (traits.float_sources & 4) now = std::max(now, float_ready_[in.rs3]);
  if (traits.writes_float) now = std::max(now, float_ready_[in.rd]);
  const bool uses_unit = traits.kind == Kind::multiply || traits.kind == Kind::divide;
  if (now <= unit_done_) {
    const u8 r = unit_register_;
    const bool waits = uses_unit || (traits.reads_rs1 && in.rs1 == r) ||
                       (traits.reads_rs2 && in.rs2 == r) || (traits.writes_rd && in.rd == r);
    if (waits) now = unit_done_ + 1;
  }
  u64 result = now + 1;
  switch (traits.kind) {
    case Kind::simple: break;
    case Kind::load:
      now = load(execution.address, traits.bytes, now);
      result = now + static_cast<u64>(config_.cpu_load_use) + (traits.bytes < 4 ? 1 : 0);
      break;
    case Kind::store:
      drain_stores(now);
      stores_.push_back({execution.address / kWordBytes,
                         ((1u << traits.bytes) - 1) << execution.address % kWordBytes, now + 2});
      break;
    case Kind::branch:
    case Kind::jump:
    case Kind::jump_register: jump(in, execution, now); break;
    case Kind::csr: result = now + 3; break;
    case Kind::multiply:
      unit_done_ = now + 1 + multiply_cycles(in.op, execution.first);
      unit_register_ = in.rd;
      break;
    case Kind::divide:
      unit_done_ = now + 1 + divide_cycles(in.op, execution.first, execution.second);
      unit_register_ = in.rd;
      break;
    case Kind::floating: result = now + static_cast<u64>(config_.cpu_float_use); break;
    case Kind::float_divide: result = now + static_cast<u64>(config_.cpu_float_divide); break;
  }
  if (traits.writes_rd) {
    if (in.rd != 0 && !uses_unit) ready_[in.rd] = result;
    // The unit's result waits for a cycle in which no other is written.
    if (now + 2 == unit_done_) unit_done_++;
  }
  if (traits.writes_float) {
    float_ready_[in.rd] = traits.kind == Kind::load ? now + static_cast<u64>(config_.cpu_float_use)
                                                    : result;
  }
  now_ = now;
  return static_cast<u32>(now - before);
}

// When the instruction can be executed at the earliest. Words are fetched one per cycle, ahead of
// the instructions in use as far as the fetch queue reaches.
u64 Pipeline::fetch(u64 pc, int length) {
  const u64 last = pc + static_cast<u64>(length) - 1;
  for (u64 packet = pc / kPacketBytes; packet <= last / kPacketBytes; packet++) {
    if (packet == packet_) continue;
    packet_ = packet;
    const u64 ahead = static_cast<u64>(config_.cpu_fetch_queue);
    packet_ready_ = std::max(packet_ready_ + 1, now_ > ahead ? now_ - ahead : 0);
  }
  const u64 line = last >> line_shift_;
  fetch_miss_.reset();
  if (line != fetched_line_) {
    fetched_line_ = line;
    if (!instruction_cache_.access(last, false)) fetch_miss_ = last;
  }
  return packet_ready_;
}

void Pipeline::jump(const Instruction& in, const Execution& execution, u64 now) {
  const u64 after = execution.pc + in.length;
  const u64 packet = (after - 1) / kPacketBytes * kPacketBytes;
  const bool is_fetch_bound = now < packet_ready_ + 2;
  const bool is_call = (in.op == Op::jal || in.op == Op::jalr) && (in.rd & 1) != 0;
  Redirect redirect;
  if (in.op == Op::jal) {
    redirect = predictor_.jump(packet, is_fetch_bound);
  } else if (in.op == Op::jalr) {
    const bool is_return = in.rd == 0 && (in.rs1 == 1 || in.rs1 == 5);
    redirect = predictor_.jump_register(packet, execution.next_pc, is_return, is_fetch_bound);
  } else {
    redirect = predictor_.branch(packet, execution.next_pc != after, is_fetch_bound);
  }
  if (is_call) predictor_.call(after);
  if (redirect == Redirect::decoded) packet_ready_++;
  if (redirect == Redirect::resolved) {
    mispredicted_[execution.pc]++;
    packet_ready_ = now + static_cast<u64>(config_.cpu_branch_miss);
    packet_ = ~0ull;
  }
  if (execution.next_pc != after) packet_ = ~0ull;
}

// Stores reach the cache in cycles without a load, oldest first.
void Pipeline::drain_stores(u64 now) {
  while (!stores_.empty()) {
    u64 written = std::max(stores_.front().ready, cache_free_);
    if (written >= first_load_ && written <= last_load_) written = last_load_ + 1;
    if (written >= now) return;
    cache_free_ = written + 1;
    stores_.erase(stores_.begin());
  }
}

// When the load executes: one that finds its bytes on their way to the cache is replayed.
u64 Pipeline::load(u64 address, u32 size, u64 now) {
  drain_stores(now);
  const u32 bytes = ((1u << size) - 1) << address % kWordBytes;
  for (const PendingStore& store : stores_) {
    if (store.word != address / kWordBytes || (store.bytes & bytes) == 0) continue;
    now += static_cast<u64>(config_.cpu_replay);
    stores_.clear();
    packet_ready_ = now;
    break;
  }
  if (now != last_load_ + 1) first_load_ = now;
  last_load_ = now;
  return now;
}

// A few bits of the multiplier per cycle; the low product is ready when the rest of them is zero.
u32 Pipeline::multiply_cycles(Op op, u64 multiplier) const {
  const int step = config_.cpu_multiply_bits;
  const int width = op == Op::mulw ? 32 : 64;
  const int most = width / step;
  if (op != Op::mul && op != Op::mulw) return static_cast<u32>(most);
  if (op == Op::mulw) multiplier &= 0xffffffffu;
  const int used = (significant_bits(multiplier) + step - 1) / step;
  const int least = op == Op::mul ? 2 : 1;  // a full multiplication looks after its first step
  return static_cast<u32>(std::clamp(used + 1, least, most));
}

// One cycle for each bit of the quotient, after skipping its leading zeros; a negative operand
// and a negative result take a cycle each.
u32 Pipeline::divide_cycles(Op op, u64 dividend, u64 divisor) const {
  const bool is_signed = op == Op::div || op == Op::rem || op == Op::divw || op == Op::remw;
  const bool is_remainder = op == Op::rem || op == Op::remu || op == Op::remw || op == Op::remuw;
  const auto operand = [&](u64 value) {
    if (op < Op::divw) return value;
    return is_signed ? static_cast<u64>(static_cast<i64>(static_cast<i32>(value)))
                     : value & 0xffffffffu;
  };
  dividend = operand(dividend);
  divisor = operand(divisor);
  const bool negative_dividend = is_signed && static_cast<i64>(dividend) < 0;
  const bool negative_divisor = is_signed && static_cast<i64>(divisor) < 0;
  if (negative_dividend) dividend = ~dividend + 1;
  if (negative_divisor) divisor = ~divisor + 1;
  const bool negates = is_remainder ? negative_dividend : negative_dividend != negative_divisor;
  u32 cycles = (negative_dividend || negative_divisor ? 1 : 0) + (negates ? 1 : 0);
  // The position of the quotient's first bit, as the hardware computes it: modulo 64.
  const int first_bit = (std::max(significant_bits(dividend), 1) -
                         std::max(significant_bits(divisor), 1)) & 63;
  return cycles + (divisor == 0 || first_bit == 63 ? 65 : static_cast<u32>(first_bit) + 3);
}

}  // namespace cosim
