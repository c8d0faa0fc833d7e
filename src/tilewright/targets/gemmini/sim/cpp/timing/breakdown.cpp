#include "breakdown.hpp"

#include <algorithm>
#include <bit>

namespace cosim {
namespace {

constexpr const char* kNames[] = {
    "array_busy",   "bank_conflict",   "write_steal",      "dma_wait",     "store_wait", "dependency",
    "rs_full_load", "rs_full_store",   "cpu",
    "cpu_fetch",    "cpu_data",        "cpu_literal",      "fence",        "drain",
    "preloads_alone", "product_rows", "rs_full_execute", "full_store_products", "full_store_bank",
    "accumulator_port", "command_wait", "fence_wait",
    "fetch_wait",   "data_wait",       "literal_wait",
    "l2_hit",       "l2_miss",         "mispredictions",
};
static_assert(std::size(kNames) == static_cast<std::size_t>(Cause::count));

constexpr const char* kUsers[] = {
    "operands A and B",     "operands A and D",     "operands B and D",
    "a load and operand A", "a load and operand B", "a load and operand D",
};
static_assert(std::size(kUsers) == static_cast<std::size_t>(BankUsers::count));

bool is_loss(Cause cause) {
  return cause != Cause::array_busy && cause != Cause::product_rows && cause != Cause::l2_hit &&
         cause != Cause::l2_miss;
}

}  // namespace

void Breakdown::add_at_bank(Cause cause, BankUsers users, u32 bank, u64 pc) {
  add(cause, pc);
  if (bank == 0) return;
  const auto index = static_cast<std::size_t>(std::countr_zero(bank));
  AtBank& lost = at_banks_[static_cast<std::size_t>(users)][index];
  if (lost.cycles++ == 0) lost.first_pc = pc;
}

std::vector<BankLoss> Breakdown::bank_losses() const {
  std::vector<BankLoss> losses;
  for (std::size_t users = 0; users < at_banks_.size(); users++) {
    const bool is_conflict = users < static_cast<std::size_t>(BankUsers::load_and_a);
    const Cause cause = is_conflict ? Cause::bank_conflict : Cause::write_steal;
    for (std::size_t bank = 0; bank < kMaxBanks; bank++) {
      const AtBank& lost = at_banks_[users][bank];
      if (lost.cycles == 0) continue;
      losses.push_back({kNames[static_cast<std::size_t>(cause)], kUsers[users],
                        static_cast<int>(bank), lost.cycles, lost.first_pc});
    }
  }
  std::stable_sort(losses.begin(), losses.end(), [](const BankLoss& a, const BankLoss& b) {
    return a.cycles > b.cycles;
  });
  return losses;
}

void Breakdown::repeat(u64 times) {
  for (const auto& [cause, pc] : recent_) {
    count(cause, pc, times);
    phases_.add(cause, times);
    gaps_.add(cause, pc, times);
  }
}

void Gaps::add_part(Cause cause, u64 pc, u64 times) {
  for (std::size_t i = 0; i < count_; i++) {
    if (parts_[i].cause == cause && parts_[i].pc == pc) {
      parts_[i].cycles += times;
      last_ = i;
      return;
    }
  }
  if (count_ == kParts) return;
  last_ = count_++;
  parts_[last_] = {cause, pc, times};
}

// The last `busy` cycles are not of the gap.
void Gaps::end(u64 busy) {
  keep(now_ - busy, longest_);
  parts_[0] = {};
  last_ = count_ = 0;
  length_ = 0;
}

void Gaps::keep(u64 end, std::vector<Gap>& longest) const {
  if (longest.size() == kKept && length_ <= longest.back().cycles) return;
  const Part& most = *std::max_element(
      parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(count_),
      [](const Part& a, const Part& b) { return a.cycles < b.cycles; });
  const auto after = std::upper_bound(
      longest.begin(), longest.end(), length_,
      [](u64 cycles, const Gap& gap) { return cycles > gap.cycles; });
  longest.insert(after, {end - length_, length_,
                         kNames[static_cast<std::size_t>(most.cause)], most.pc});
  if (longest.size() > kKept) longest.pop_back();
}

std::vector<Gap> Gaps::longest() const {
  std::vector<Gap> all = longest_;
  if (length_ > 0) keep(now_, all);
  std::sort(all.begin(), all.end(),
            [](const Gap& a, const Gap& b) { return a.start < b.start; });
  return all;
}

// What was lost since the last busy cycle belongs to the part that the next busy one is in.
void Phases::add_busy(u64 times) {
  constexpr auto kBusy = static_cast<std::size_t>(Cause::array_busy);
  if (parts_.empty()) {
    start_ = pending_;
    pending_ = {};
    parts_.emplace_back();
  }
  while (times > 0) {
    if (parts_.back()[kBusy] == part_busy_) begin_part();
    Cycles& part = parts_.back();
    if (is_pending_) {
      for (std::size_t cause = 0; cause < kCauses; cause++) part[cause] += pending_[cause];
      pending_ = {};
      is_pending_ = false;
    }
    const u64 busy = std::min(times, part_busy_ - part[kBusy]);
    part[kBusy] += busy;
    times -= busy;
  }
}

// The last part is whole. Once there are as many as are kept, each two become one.
void Phases::begin_part() {
  if (parts_.size() == kParts) {
    for (std::size_t i = 0; i < kParts / 2; i++) {
      for (std::size_t cause = 0; cause < kCauses; cause++) {
        parts_[i][cause] = parts_[2 * i][cause] + parts_[2 * i + 1][cause];
      }
    }
    parts_.resize(kParts / 2);
    part_busy_ *= 2;
  }
  parts_.emplace_back();
}

std::vector<std::vector<u64>> Phases::all() const {
  std::vector<Cycles> all{start_};
  all.insert(all.end(), parts_.begin(), parts_.end());
  all.push_back(pending_);
  std::vector<std::vector<u64>> phases;
  for (const Cycles& cycles : all) phases.emplace_back(cycles.begin(), cycles.end());
  return phases;
}

void Breakdown::report(std::vector<std::pair<std::string, u64>>& counts,
                       std::vector<Hotspot>& hotspots) const {
  for (std::size_t i = 0; i < counters_.size(); i++) {
    u64 total = 0;
    for (const auto& [pc, cycles] : counters_[i].by_pc) {
      total += cycles;
      if (is_loss(static_cast<Cause>(i))) hotspots.push_back({kNames[i], pc, cycles});
    }
    counts.emplace_back(kNames[i], total);
  }
  std::sort(hotspots.begin(), hotspots.end(), [](const Hotspot& a, const Hotspot& b) {
    if (a.cycles != b.cycles) return a.cycles > b.cycles;
    return a.cause != b.cause ? a.cause < b.cause : a.pc < b.pc;
  });
}

}  // namespace cosim
