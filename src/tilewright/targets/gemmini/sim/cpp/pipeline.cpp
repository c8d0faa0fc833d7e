#include "pipeline.hpp"

#include <algorithm>
#include <bit>

namespace cosim {
namespace {

bool is_integer_load(Op op) { return op >= Op::lb && op <= Op::lwu; }
bool is_float_load(Op op) { return op == Op::flw || op == Op::fld; }
bool is_store(Op op) { return (op >= Op::sb && op <= Op::sd) || op == Op::fsw || op == Op::fsd; }
bool is_multiply(Op op) { return (op >= Op::mul && op <= Op::mulhu) || op == Op::mulw; }
bool is_divide(Op op) {
  return (op >= Op::div && op <= Op::remu) || (op >= Op::divw && op <= Op::remuw);
}

// Whether the instruction reads `rs2` as an integer register early in the pipeline.
bool reads_rs2(Op op) {
  return (op >= Op::beq && op <= Op::bgeu) || (op >= Op::sb && op <= Op::sd) ||
         (op >= Op::add && op <= Op::sraw) || (op >= Op::mul && op <= Op::remuw) || op == Op::rocc;
}

bool reads_rs1(Op op) { return op != Op::lui && op != Op::auipc && op != Op::jal; }

}  // namespace

Pipeline::Pipeline(const Config& config)
    : config_(config), instruction_cache_(config), branch_counters_(kBranchEntries, 1) {}

u32 Pipeline::cycles(const Instruction& in, const Execution& execution) {
  u32 cycles = 1 + fetch(execution.pc);
  if (loaded_register_ != 0 && ((reads_rs1(in.op) && in.rs1 == loaded_register_) ||
                                (reads_rs2(in.op) && in.rs2 == loaded_register_))) {
    cycles += static_cast<u32>(config_.cpu_load_use);
  }
  loaded_register_ = is_integer_load(in.op) ? in.rd : 0;
  now_ += cycles;
  const u32 more = latency(in, execution);
  now_ += more;
  return cycles + more;
}

u32 Pipeline::fetch(u64 pc) {
  const u64 line = pc / static_cast<u64>(config_.l2_line_bytes);
  if (line == fetched_line_) return 0;
  fetched_line_ = line;
  return instruction_cache_.access(pc, false) ? 0 : static_cast<u32>(config_.cpu_fetch_miss);
}

// Cycles beyond the first.
u32 Pipeline::latency(const Instruction& in, const Execution& execution) {
  const Op op = in.op;
  if (is_integer_load(op)) return load(execution.address);
  if (is_float_load(op)) return 1 + load(execution.address);
  if (is_store(op)) {
    stores_[next_store_] = {execution.address,
                            now_ + static_cast<u64>(config_.cpu_store_latency), true};
    next_store_ = (next_store_ + 1) % kPendingStores;
    return 0;
  }
  if (op >= Op::beq && op <= Op::bgeu) return branch(execution.pc, execution.taken);
  if (is_multiply(op)) return static_cast<u32>(config_.cpu_multiply);
  if (is_divide(op)) return divide(op, execution.dividend, execution.divisor);
  if (op >= Op::fmadd_s && op < Op::rocc) return static_cast<u32>(config_.cpu_float);
  return 0;
}

// Stores reach the cache in cycles without a load, oldest first. A load of a word that is still
// on its way is replayed after it.
u32 Pipeline::load(u64 address) {
  for (int i = 0; i < kPendingStores; i++) {
    PendingStore& store = stores_[(next_store_ + i) % kPendingStores];
    if (!store.is_pending) continue;
    const u64 written = std::max(store.ready, cache_used_ + 1);
    if (written >= now_) break;
    store.is_pending = false;
    cache_used_ = written;
  }
  cache_used_ = now_;
  for (PendingStore& store : stores_) {
    const bool is_same_word = ((store.address ^ address) & 0xff8) == 0;
    if (!store.is_pending || !is_same_word) continue;
    store.is_pending = false;
    return static_cast<u32>(config_.cpu_store_to_load);
  }
  return 0;
}

u32 Pipeline::branch(u64 pc, bool taken) {
  u8& counter = branch_counters_[(pc >> 1) % kBranchEntries];
  const bool predicted = counter >= 2;
  if (taken && counter < 3) counter++;
  if (!taken && counter > 0) counter--;
  return predicted == taken ? 0 : static_cast<u32>(config_.cpu_branch_miss);
}

// One cycle for each bit of the quotient: the divider skips its leading zeros.
u32 Pipeline::divide(Op op, u64 dividend, u64 divisor) const {
  const bool is_signed = op == Op::div || op == Op::rem || op == Op::divw || op == Op::remw;
  const bool is_word = op >= Op::divw;
  const auto width = [&](u64 value) {
    if (is_word) value = static_cast<u64>(static_cast<i64>(static_cast<i32>(value)));
    if (is_word && !is_signed) value &= 0xffffffffu;
    if (is_signed && static_cast<i64>(value) < 0) value = ~value + 1;
    return static_cast<int>(std::bit_width(value));
  };
  const int bits = std::max(0, width(dividend) - width(divisor));
  return static_cast<u32>(config_.cpu_divide + (divisor == 0 ? 64 : bits));
}

}  // namespace cosim
