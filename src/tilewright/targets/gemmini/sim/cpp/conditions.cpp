#include "conditions.hpp"

#include <algorithm>

#include "hart.hpp"
#include "traits.hpp"

namespace cosim {
namespace {

constexpr std::size_t kMostLabels = 1 << 22;
constexpr std::size_t kMostCalls = 1 << 17;  // more than the stack has room for
constexpr u32 kRounding = 2;                    // control registers
constexpr u32 kFlags = 1;
constexpr u8 kReturnRegister = 1;
constexpr u8 kMoveOut = 3;    // funct of mvout
constexpr u8 kFirstLoop = 8;  // funct of the first loop command

bool between(Op op, Op first, Op last) { return op >= first && op <= last; }

// Whether the result is 0 or 1 by a condition. A shift that leaves only the sign is how compilers
// compute `x < 0`.
bool is_comparison(const Instruction& in) {
  return in.op == Op::slt || in.op == Op::sltu || in.op == Op::slti || in.op == Op::sltiu ||
         between(in.op, Op::feq_s, Op::fle_s) || between(in.op, Op::feq_d, Op::fle_d) ||
         (in.op == Op::srli && in.imm == 63) || (in.op == Op::srliw && in.imm == 31);
}

// Whether the result may be the same for all data, as the sum of all counts of a histogram, if both
// operands are data.
bool may_balance(Op op) {
  return op == Op::add || op == Op::sub || op == Op::addw || op == Op::subw ||
         op == Op::fadd_s || op == Op::fsub_s || op == Op::fadd_d || op == Op::fsub_d;
}

// `x == x`, which is true unless x is NaN. Arguments never are.
bool tells_only_nan(const Instruction& in) {
  return (in.op == Op::feq_s || in.op == Op::feq_d) && in.rs1 == in.rs2;
}

}  // namespace

Conditions::Conditions(Memory& memory, Joins joins) : memory_(memory), joins_(std::move(joins)) {}

void Conditions::begin_call() {
  calls_++;
  close_all();
  std::fill(std::begin(x_), std::end(x_), kNone);
  std::fill(std::begin(f_), std::end(f_), kNone);
  flags_ = rounding_ = kNone;
  returns_.assign(1, Hart::kReturnAddress);
  arguments_.clear();
}

// Everything that was written under decisions becomes data.
void Conditions::close_all() {
  const auto settle = [](Label& label) {
    if (label != kNone && label < kDecided) label = kDecided;
  };
  std::for_each(std::begin(x_), std::end(x_), settle);
  std::for_each(std::begin(f_), std::end(f_), settle);
  settle(flags_);
  settle(rounding_);
  for (auto* pages : {&pages_, &arguments_}) {
    for (auto& [number, page] : *pages) std::for_each(page->begin(), page->end(), settle);
  }
  open_.clear();
  meaning_.assign(1, kNone);
  hidden_ = kNone;
}

bool Conditions::is_data(Label label) const {
  while (label != kNone && label < kDecided && meaning_[label] != label) label = meaning_[label];
  return label >= kDecided || (label != kNone && label < hidden_);
}

Conditions::Label Conditions::label_of_result(bool is_data) const {
  return is_data ? kDecided : open_.empty() ? kNone : open_.back().label;
}

void Conditions::open(Open entry) {
  if (meaning_.size() > kMostLabels) close_all();
  entry.label = static_cast<Label>(meaning_.size());
  entry.hidden = hidden_;
  meaning_.push_back(entry.label);
  if (entry.is_boundary) hidden_ = entry.label;
  open_.push_back(entry);
}

// Closes the innermost ones, until `size` are left.
void Conditions::close(std::size_t size) {
  while (open_.size() > size) {
    const Open last = open_.back();
    open_.pop_back();
    hidden_ = last.hidden;
    // What was written since a boundary belongs to the enclosing decision.
    const bool joins_outer = last.is_boundary && !open_.empty();
    meaning_[last.label] = joins_outer ? open_.back().label : kDecided;
  }
}

void Conditions::before(u64 pc) {
  std::size_t left = open_.size();
  for (std::size_t i = open_.size(); i > 0 && open_[i - 1].depth == returns_.size(); i--) {
    if (!open_[i - 1].is_boundary && open_[i - 1].join == pc) left = i - 1;
  }
  close(left);
}

// A branch on data begins a decision. That of the same branch in the iteration before ends.
void Conditions::decide(u64 branch) {
  std::size_t left = open_.size();
  for (std::size_t i = open_.size(); i > 0 && open_[i - 1].depth == returns_.size(); i--) {
    if (!open_[i - 1].is_boundary && open_[i - 1].branch == branch) left = i - 1;
  }
  close(left);
  const auto join = joins_.find(branch);
  open({branch, join == joins_.end() ? 0 : join->second, returns_.size()});
}

void Conditions::after(const Instruction& in, const Execution& execution, u64 result) {
  const Traits& traits = traits_of(in.op);
  if (traits.kind == Kind::jump || traits.kind == Kind::jump_register) {
    jump(in, execution);
    return;
  }
  bool on_data = reads_data(in);
  if (traits.kind == Kind::branch) {
    const bool is_taken = execution.next_pc != execution.pc + in.length;
    note(execution.pc, on_data, is_taken);
    if (on_data) {
      computed(in, execution, is_taken);
      decide(execution.pc);
    }
    return;
  }
  if (is_comparison(in)) note(execution.pc, on_data, result != 0);
  if (traits.kind == Kind::store) {
    const Label value = traits.reads_rs2 ? x_[in.rs2] : f_[in.rs2];
    if (is_data(x_[in.rs1])) {
      wrote_anywhere_ = true;
      auto& [lowest, highest] =
          scattered_.try_emplace(execution.pc, execution.address, execution.address).first->second;
      lowest = std::min(lowest, execution.address);
      highest = std::max(highest, execution.address);
    }
    stamp(execution.address, traits.bytes);
    const bool is_computed = value >= kComputed;
    label_bytes(execution.address, traits.bytes,
                is_computed ? value : label_of_result(is_data(value)));
    return;
  }
  if (in.op == Op::rocc) {
    const auto funct = static_cast<u8>(in.imm);
    if (on_data && (funct == kMoveOut || funct >= kFirstLoop)) wrote_anywhere_ = true;
    return;
  }
  Label label = label_of_result(false);
  if (on_data && traits.kind != Kind::csr) label = computed(in, execution, result);
  if (traits.kind == Kind::load) {
    read_what_was_kept(execution.pc, execution.address, traits.bytes, result);
    // Data decided whether anything was written there, in a call of the checks or in another one.
    if (!on_data && is_scattered(execution.address)) {
      site(in, execution.pc).record(calls_, {Operand{true, calls_, 0}}, result);
    }
  }
  if (traits.kind == Kind::load && label < kComputed) {
    const Label found = loaded(execution.address, traits.bytes);
    if (is_data(found)) label = std::max(label, found);
  }
  if (traits.kind >= Kind::floating) {
    if (!on_data && is_data(rounding_)) label = kDecided;
    const Label raised = label_of_result(is_data(label));
    if (!is_data(flags_) && raised != kNone) flags_ = raised;
  } else if (traits.kind == Kind::csr) {
    const auto number = static_cast<u32>(in.imm);
    const Label set = label_of_result(on_data);
    label = label_of_result(false);
    if ((number != kRounding && is_data(flags_)) || (number != kFlags && is_data(rounding_))) {
      // What raised the flags differed between calls.
      label = computed(in, execution, result);
    }
    if (number != kRounding && !is_data(flags_)) flags_ = set;
    if (number != kFlags) rounding_ = set;
  }
  if (traits.writes_rd && in.rd != 0) x_[in.rd] = label;
  if (traits.writes_float) {
    f_[in.rd] = label;
    floats_[in.rd] = result;
  }
}

bool Conditions::reads_data(const Instruction& in) const {
  if (tells_only_nan(in)) return false;
  const Traits& traits = traits_of(in.op);
  return (traits.reads_rs1 && is_data(x_[in.rs1])) || (traits.reads_rs2 && is_data(x_[in.rs2])) ||
         (traits.float_sources & 1 && is_data(f_[in.rs1])) ||
         (traits.float_sources & 2 && is_data(f_[in.rs2])) ||
         (traits.float_sources & 4 && is_data(f_[in.rs3]));
}

void Conditions::jump(const Instruction& in, const Execution& execution) {
  const bool is_indirect = in.op == Op::jalr;
  if (is_indirect && in.rd == 0 && !returns_.empty() && execution.next_pc == returns_.back()) {
    returns_.pop_back();
    std::size_t left = open_.size();
    while (left > 0 && open_[left - 1].depth > returns_.size()) left--;
    close(left);
    return;
  }
  if (is_indirect && is_data(x_[in.rs1])) {
    Condition& condition = found_[execution.pc];
    condition.is_jump = condition.is_on_data = true;
  }
  if (in.rd != 0) {
    x_[in.rd] = label_of_result(false);
    if (in.rd == kReturnRegister && returns_.size() < kMostCalls) {
      returns_.push_back(execution.pc + in.length);
    }
  }
  // Other ways may lead to the same code with other values.
  if ((is_indirect || in.rd != 0) && !open_.empty()) {
    const Open& last = open_.back();
    if (last.is_boundary && last.depth == returns_.size()) close(open_.size() - 1);
    open({execution.pc, 0, returns_.size(), kNone, kNone, true});
  }
}

void Conditions::note(u64 pc, bool is_on_data, bool result) {
  Condition& condition = found_[pc];
  condition.is_on_data |= is_on_data;
  (result ? condition.was_true : condition.was_false) = true;
}

// The record of an instruction that computes a number, or the result of a condition.
Condition& Conditions::site(const Instruction& in, u64 pc) {
  Condition& condition = found_[pc];
  if (condition.label == 0) {
    condition.pc = pc;
    condition.label = kComputed + static_cast<Label>(sites_.size());
    condition.is_number = traits_of(in.op).kind != Kind::branch && !is_comparison(in);
    sites_.push_back(&condition);
  }
  return condition;
}

// An instruction that reads data computed a number, or the result of a condition. Returns the label
// of this number.
Conditions::Label Conditions::computed(const Instruction& in, const Execution& execution,
                                       u64 result) {
  auto read = operands(in, execution);
  bool is_computed = traits_of(in.op).kind == Kind::csr;
  if (is_computed) read[2] = {true, calls_, 0};
  const u8 floats = traits_of(in.op).float_sources;
  is_computed |= (traits_of(in.op).reads_rs1 && x_[in.rs1] >= kComputed) ||
                 (traits_of(in.op).reads_rs2 && x_[in.rs2] >= kComputed) ||
                 ((floats & 1) && f_[in.rs1] >= kComputed) ||
                 ((floats & 2) && f_[in.rs2] >= kComputed) ||
                 ((floats & 4) && f_[in.rs3] >= kComputed);
  Condition& condition = site(in, execution.pc);
  const bool is_balance = balances(in);
  condition.record(calls_, read, is_balance ? std::nullopt : std::optional(result));
  return !is_computed ? kDecided : is_balance ? kData : condition.label;
}

// Whether an instruction adds or subtracts two numbers that are data.
bool Conditions::balances(const Instruction& in) const {
  if (!may_balance(in.op)) return false;
  const auto& labels = traits_of(in.op).float_sources ? f_ : x_;
  return is_data(labels[in.rs1]) && is_data(labels[in.rs2]);
}

std::array<Operand, 3> Conditions::operands(const Instruction& in,
                                            const Execution& execution) const {
  const Traits& traits = traits_of(in.op);
  const auto operand = [this](Label label, u64 value) -> Operand {
    const bool has_producer = label >= kComputed && label != kData;
    return {is_data(label), value, has_producer ? sites_[label - kComputed]->pc : 0};
  };
  std::array<Operand, 3> found;
  if (traits.reads_rs1) found[0] = operand(x_[in.rs1], execution.first);
  if (traits.reads_rs2) found[1] = operand(x_[in.rs2], execution.second);
  const u8 floats[] = {in.rs1, in.rs2, in.rs3};
  for (std::size_t i = 0; i < 3; i++) {
    if (traits.float_sources >> i & 1) found[i] = operand(f_[floats[i]], floats_[floats[i]]);
  }
  return found;
}

// The label of data that are read from memory, or `kNone`.
Conditions::Label Conditions::loaded(u64 address, u64 size) {
  const Region* region = memory_.find(address, size);
  const Pages& pages = region->is_argument ? arguments_ : pages_;
  Label found = wrote_anywhere_ && region->writable ? kDecided : kNone;
  for (u64 at = address; at < address + size; at++) {
    const auto page = pages.find(at / kPageBytes);
    Label label = page == pages.end() ? kNone : (*page->second)[at % kPageBytes];
    if (region->is_argument && label < kComputed) label = kData;
    if (!is_data(label)) continue;
    const Label one = label >= kComputed ? label : kDecided;
    found = at > address && one != found && std::max(one, found) > kDecided ? kData
                                                                           : std::max(one, found);
  }
  return found;
}

// These bytes were written in this call.
void Conditions::stamp(u64 address, u64 size) {
  if (memory_.find(address, size)->is_argument) return;
  for (u64 at = address; at < address + size; at++) {
    auto& page = stamps_[at / kPageBytes];
    if (!page) page = std::make_unique<std::array<u32, kPageBytes>>();
    (*page)[at % kPageBytes] = static_cast<u32>(calls_);
  }
}

// An instruction read `value`. If an earlier call has written it, and it is another one in each call,
// this call depends on the earlier ones. What only the first call wrote, as a table, does not change.
void Conditions::read_what_was_kept(u64 pc, u64 address, u64 size, u64 value) {
  bool is_kept = false;
  for (u64 at = address; at < address + size; at++) {
    const auto page = stamps_.find(at / kPageBytes);
    const u32 call = page == stamps_.end() ? 0 : (*page->second)[at % kPageBytes];
    is_kept |= call != 0 && call != calls_;
  }
  if (!is_kept) return;
  const auto [place, is_first] = kept_.try_emplace(address, calls_, value);
  auto& [call, before] = place->second;
  if (!is_first && call != calls_ && before != value) found_[pc].is_kept = true;
  place->second = {calls_, value};
}

bool Conditions::is_scattered(u64 address) const {
  return std::any_of(scattered_.begin(), scattered_.end(), [address](const auto& entry) {
    return entry.second.first <= address && address <= entry.second.second;
  });
}

void Conditions::label_bytes(u64 address, u64 size, Label label) {
  Pages& pages = memory_.find(address, size)->is_argument ? arguments_ : pages_;
  for (u64 at = address; at < address + size;) {
    const u64 first = at % kPageBytes;
    const u64 count = std::min(address + size - at, kPageBytes - first);
    auto page = pages.find(at / kPageBytes);
    if (page == pages.end() && label != kNone) {
      page = pages.emplace(at / kPageBytes, std::make_unique<Page>()).first;
    }
    if (page != pages.end()) std::fill_n(page->second->begin() + first, count, label);
    at += count;
  }
}

}  // namespace cosim
