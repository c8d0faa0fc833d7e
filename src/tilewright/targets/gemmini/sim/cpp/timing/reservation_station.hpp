// Holds commands until what they depend on is done, and issues each queue in order.
#pragma once

#include <array>
#include <bit>
#include <vector>

#include "../config.hpp"
#include "clock.hpp"
#include "fifo.hpp"
#include "timed_command.hpp"

namespace cosim {

enum Unit : int { kLoadUnit = 0, kExecuteUnit = 1, kStoreUnit = 2, kUnits = 3 };

class ReservationStation {
 public:
  ReservationStation(const Config& config, Clock& clock);

  static Unit unit_of(const TimedCommand& command) {
    if (command.funct == kConfig) {
      const u8 target = config_target(command.rs1);
      return target == kConfigLoad ? kLoadUnit : target == kConfigStore ? kStoreUnit : kExecuteUnit;
    }
    if (is_mvin(command.funct)) return kLoadUnit;
    return command.funct == kMvout ? kStoreUnit : kExecuteUnit;
  }

  // Takes a command, at most one per cycle; false when its unit has no free entry.
  bool allocate(const TimedCommand& command) {
    const Unit unit = unit_of(command);
    if (valid_[unit] == all_slots_[unit]) return false;
    insert(unit, command);
    return true;
  }

  // Moves the oldest command of each unit to `issued` if nothing holds it back.
  void issue() {
    for (int u = 0; u < kUnits; u++) {
      if (issues_at_[u] > clock_.now || issued[u].size() >= queue_capacity_[u]) continue;
      issue_oldest(static_cast<Unit>(u));
    }
  }

  void complete(Unit unit, int slot);

  // Busy as a fence sees it: a lone preload without its compute does not count.
  bool is_busy() const;

  int entries(Unit unit) const { return std::popcount(valid_[unit]); }
  int capacity(Unit unit) const { return static_cast<int>(entries_[unit].size()); }

  // The commands each controller may take, oldest first.
  std::array<Fifo<IssuedCommand>, kUnits> issued;

  // The oldest execute command not issued yet, nullptr if there is none.
  const TimedCommand* waiting_execute() const;
  // A load or store that it waits for, nullptr if none.
  const TimedCommand* blocker_of_waiting_execute(Unit unit) const;

  // Whether the oldest store is not issued yet because products write what it reads.
  bool store_waits_for_products() const;

  void add_wakeups(Wakeup& wakeup) const;

 private:
  // Local rows [first, end) of one operand, the accumulator's after all of the scratchpad's.
  struct Range {
    u32 first = 0;
    u32 end = 0;
    bool overlaps(const Range& other) const { return first < other.end && other.first < end; }
  };

  struct Entry {
    TimedCommand command;
    Range written;              // by a load or into C
    Range read[2];              // by a preload, compute or store
    std::array<u32, kUnits> waits_for = {};  // bit masks over each unit's slots
    Cycle ready = 0;
  };

  static constexpr Cycle kNever = ~Cycle{0};

  void insert(Unit unit, const TimedCommand& command);
  static Range range_of(LocalAddress address, u32 rows);
  void find_operands(Entry& entry) const;
  void find_dependencies(Unit unit, Entry& entry) const;
  void remember_config(const TimedCommand& command);
  void issue_oldest(Unit unit);
  void find_issue_time(Unit unit);
  template <typename Conflict>
  u32 slots_where(Unit unit, Conflict conflict) const;

  const Config config_;
  Clock& clock_;
  std::array<std::vector<Entry>, kUnits> entries_;
  std::array<u32, kUnits> valid_ = {};
  std::array<u32, kUnits> all_slots_ = {};
  std::array<Fifo<int>, kUnits> waiting_;  // slots not issued yet, oldest first
  std::array<u32, kUnits> waiting_slots_ = {};  // the same as bits
  std::array<Cycle, kUnits> issues_at_;         // the oldest of them, unless its queue is full
  std::array<u32, kUnits> queue_capacity_;
  std::array<Cycle, kUnits> issue_latency_;
  bool has_solitary_preload_ = false;

  // Configuration as of the last allocated command: it decides which rows commands touch.
  int block_stride_[3];
  ExecuteConfig execute_config_;
};

}  // namespace cosim
