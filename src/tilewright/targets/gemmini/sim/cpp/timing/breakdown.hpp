// Counts where cycles go, and at which instructions.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../simulation.hpp"
#include "../types.hpp"

namespace cosim {

// What the array does in a cycle is exactly one of the causes up to `drain`; the others overlap.
enum class Cause : u8 {
  array_busy,
  bank_conflict,
  write_steal,
  dma_wait,
  store_wait,
  dependency,
  rs_full_load,
  rs_full_store,
  cpu,
  cpu_fetch,
  cpu_data,
  cpu_literal,
  fence,
  drain,
  preloads_alone,
  product_rows,
  rs_full_execute,
  full_store_products,
  full_store_bank,
  accumulator_port,
  command_wait,
  fence_wait,
  fetch_wait,
  data_wait,
  literal_wait,
  l2_hit,
  l2_miss,
  branch_miss,
  count,
};

// Two that want one bank of the scratchpad in the same cycle.
enum class BankUsers : u8 { a_and_b, a_and_d, b_and_d, load_and_a, load_and_b, load_and_d, count };

// Cycles by cause before the array's first busy cycle, between it and the last one, and after that.
// The middle is kept in at most `kParts` parts of equally many busy cycles; only the last part may be
// shorter.
class Phases {
 public:
  static constexpr std::size_t kCauses = static_cast<std::size_t>(Cause::drain) + 1;
  static constexpr std::size_t kParts = 64;
  using Cycles = std::array<u64, kCauses>;

  void add(Cause cause, u64 times) {
    if (cause > Cause::drain) return;
    if (cause == Cause::array_busy) {
      add_busy(times);
    } else {
      pending_[static_cast<std::size_t>(cause)] += times;
      is_pending_ = true;
    }
  }

  // Cycles by exclusive cause: the start, the parts of the middle, the end. Without any busy cycle
  // everything is in the end.
  std::vector<std::vector<u64>> all() const;

 private:
  void add_busy(u64 times);
  void begin_part();

  Cycles start_{};
  std::vector<Cycles> parts_;
  u64 part_busy_ = 1;  // busy cycles of a whole part
  Cycles pending_{};   // since the last busy cycle
  bool is_pending_ = false;
};

// The longest stretches of cycles in which the array is idle.
class Gaps {
 public:
  static constexpr std::size_t kKept = 16;
  // Different causes and instructions that are told apart in one gap.
  static constexpr std::size_t kParts = 64;

  void add(Cause cause, u64 pc, u64 times) {
    if (cause > Cause::drain) return;
    now_ += times;
    if (cause == Cause::array_busy) {
      if (length_ > 0) end(times);
      return;
    }
    length_ += times;
    Part& last = parts_[last_];
    if (last.cause == cause && last.pc == pc) {  // most cycles are like the one before
      last.cycles += times;
    } else {
      add_part(cause, pc, times);
    }
  }

  // In order of time, the one that the run ends with too.
  std::vector<Gap> longest() const;

 private:
  struct Part {
    Cause cause = Cause::array_busy;  // of no idle cycle
    u64 pc = 0;
    u64 cycles = 0;
  };

  void add_part(Cause cause, u64 pc, u64 times);
  void end(u64 busy);
  void keep(u64 end, std::vector<Gap>& longest) const;

  u64 now_ = 0;     // cycles so far: each has exactly one of the causes up to `drain`
  u64 length_ = 0;  // of the gap that is open
  std::array<Part, kParts> parts_;
  std::size_t count_ = 0;  // of its parts
  std::size_t last_ = 0;   // the one that was added to last
  std::vector<Gap> longest_;  // longest first
};

class Breakdown {
 public:
  // The cause of a cycle, which is that of skipped cycles like it too.
  void add(Cause cause, u64 pc) {
    recent_.emplace_back(cause, pc);
    count(cause, pc);
    phases_.add(cause, 1);
    gaps_.add(cause, pc, 1);
  }

  // Something that is not a cycle, and happens in none that is like the next.
  void count(Cause cause, u64 pc, u64 times = 1) {
    Counter& counter = counters_[static_cast<std::size_t>(cause)];
    Counter::Recent& recent = counter.recent[pc / 4 % counter.recent.size()];
    if (recent.pc != pc) recent = {pc, &counter.by_pc[pc]};
    *recent.count += times;
  }

  // As `add`, for a cycle lost at a bank of the scratchpad, which has its bit set in `bank`; no bit
  // is set for an operand in the accumulator.
  void add_at_bank(Cause cause, BankUsers users, u32 bank, u64 pc);

  // Most cycles first.
  std::vector<BankLoss> bank_losses() const;

  void begin_cycle() { recent_.clear(); }

  // Counts the causes of the current cycle `times` more: nothing changed for so long.
  void repeat(u64 times);

  void report(std::vector<std::pair<std::string, u64>>& counts,
              std::vector<Hotspot>& hotspots) const;

  // Cycles by cause, in the order of `report`, of the causes up to `drain`: see `Phases::all`.
  std::vector<std::vector<u64>> phases() const { return phases_.all(); }

  std::vector<Gap> longest_gaps() const { return gaps_.longest(); }

 private:
  struct Counter {
    // Counts of instructions seen lately: the same few often come again.
    struct Recent {
      u64 pc = ~0ull;
      u64* count = nullptr;
    };
    std::array<Recent, 8> recent;
    std::unordered_map<u64, u64> by_pc;
  };

  std::array<Counter, static_cast<std::size_t>(Cause::count)> counters_;
  std::vector<std::pair<Cause, u64>> recent_;
  Phases phases_;
  Gaps gaps_;
  struct AtBank {
    u64 cycles = 0;
    u64 first_pc = 0;
  };
  static constexpr std::size_t kMaxBanks = 32;
  std::array<std::array<AtBank, kMaxBanks>, static_cast<std::size_t>(BankUsers::count)> at_banks_;
};

}  // namespace cosim
