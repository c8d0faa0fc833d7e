#include "pipeline.hpp"

namespace cosim {
namespace {

bool is_integer_load(Op op) { return op >= Op::lb && op <= Op::lwu; }
bool is_float_load(Op op) { return op == Op::flw || op == Op::fld; }
bool is_store(Op op) { return (op >= Op::sb && op <= Op::sd) || op == Op::fsw || op == Op::fsd; }

// Whether the instruction reads `rs2` as an integer register early in the pipeline.
bool reads_rs2(Op op) {
  return (op >= Op::beq && op <= Op::bgeu) || (op >= Op::sb && op <= Op::sd) ||
         (op >= Op::add && op <= Op::sraw) || (op >= Op::mul && op <= Op::remuw) || op == Op::rocc;
}

bool reads_rs1(Op op) { return op != Op::lui && op != Op::auipc && op != Op::jal; }

}  // namespace

Pipeline::Pipeline(const Config& config) : config_(config), branch_counters_(kBranchEntries, 1) {}

u32 Pipeline::cycles(const Instruction& in, u64 pc, u64 address, bool taken) {
  const Op op = in.op;
  index_++;
  u32 cycles = 1;
  if (loaded_register_ != 0 && ((reads_rs1(op) && in.rs1 == loaded_register_) ||
                                (reads_rs2(op) && in.rs2 == loaded_register_))) {
    cycles += static_cast<u32>(config_.cpu_load_use);
  }
  loaded_register_ = 0;
  if (is_integer_load(op)) {
    loaded_register_ = in.rd;
    return cycles + load(address);
  }
  if (is_float_load(op)) return cycles + 1 + load(address);
  if (is_store(op)) {
    stores_[next_store_] = {address, index_};
    next_store_ ^= 1;
    return cycles;
  }
  if (op >= Op::beq && op <= Op::bgeu) return cycles + branch(pc, taken);
  if (op == Op::jal || op == Op::jalr) return cycles + static_cast<u32>(config_.cpu_jump);
  if (op >= Op::mul && op <= Op::mulhu) return cycles + static_cast<u32>(config_.cpu_multiply);
  if (op >= Op::div && op <= Op::remu) return cycles + static_cast<u32>(config_.cpu_divide);
  if (op == Op::mulw) return cycles + static_cast<u32>(config_.cpu_multiply);
  if (op >= Op::divw && op <= Op::remuw) {
    return cycles + static_cast<u32>(config_.cpu_divide_word);
  }
  if (op >= Op::fmadd_s && op < Op::rocc) return cycles + static_cast<u32>(config_.cpu_float);
  return cycles;
}

// A load of bytes stored just before waits for the store to reach the cache.
u32 Pipeline::load(u64 address) const {
  for (const Store& store : stores_) {
    const bool same_word = ((store.address ^ address) & 0xff8) == 0;
    const u64 distance = index_ - store.index;
    if (same_word && distance <= static_cast<u64>(config_.cpu_store_to_load_distance)) {
      return static_cast<u32>(config_.cpu_store_to_load);
    }
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

}  // namespace cosim
