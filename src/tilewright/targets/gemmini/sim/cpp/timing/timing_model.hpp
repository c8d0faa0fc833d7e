// The cycle-stepped model of the accelerator and its surroundings: all units and the order in
// which they act within a cycle.
#pragma once

#include <chrono>
#include <optional>

#include "../config.hpp"
#include "breakdown.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "../cpu_cache.hpp"
#include "dma_reader.hpp"
#include "dma_writer.hpp"
#include "event_source.hpp"
#include "execute_controller.hpp"
#include "front_end.hpp"
#include "load_controller.hpp"
#include "memory_order.hpp"
#include "memory_system.hpp"
#include "mesh.hpp"
#include "ports.hpp"
#include "reservation_station.hpp"
#include "store_controller.hpp"

namespace cosim {

enum class TimingStatus { finished, cycle_limit, source_limit };

class TimingModel {
 public:
  // With `waits_for_mark`, time starts at the program's first read of its cycle counter and
  // stops at the second.
  // `steps_every_cycle` does not skip cycles in which nothing changes: slower, same results.
  TimingModel(const Config& config, EventSource& source, Memory& contents, bool waits_for_mark,
              bool steps_every_cycle);

  // Runs to the end of the program, to `limit` cycles, or until the program or the deadline
  // stops. Throws the program's Fault, and std::logic_error if nothing can ever happen again.
  TimingStatus run(std::optional<u64> limit,
                   std::optional<std::chrono::steady_clock::time_point> deadline);

  Cycle cycles() const { return clock_.now; }

  // Counts the branches and jumps that the core mispredicted, by their addresses.
  void count_mispredicted(const std::unordered_map<u64, u64>& by_pc) {
    for (const auto& [pc, count] : by_pc) breakdown_.count(Cause::branch_miss, pc, count);
  }

  std::vector<BankLoss> bank_losses() const { return breakdown_.bank_losses(); }

  std::vector<std::vector<u64>> phases() const { return breakdown_.phases(); }
  std::vector<Gap> longest_gaps() const { return breakdown_.longest_gaps(); }

  // DRAM accesses without a fence that came in order.
  const std::vector<UnorderedPair>& unordered() const { return order_.unordered(); }

  void report(std::vector<std::pair<std::string, u64>>& breakdown,
              std::vector<Hotspot>& hotspots) const {
    breakdown_.report(breakdown, hotspots);
  }

 private:
  CpuStatus step();
  void skip_quiet_cycles(std::optional<u64> limit);
  bool accelerator_is_busy() const;

  const bool steps_every_cycle_;
  Clock clock_;
  Breakdown breakdown_;
  Ports ports_;
  MemorySystem memory_;
  MemoryOrder order_;
  CpuCache cpu_cache_;
  ReservationStation station_;
  CommandTracker load_tracker_;
  CommandTracker store_tracker_;
  Completions completions_;
  DmaReader reader_;
  DmaWriter writer_;
  Mesh mesh_;
  LoadController load_;
  ExecuteController execute_;
  StoreController store_;
  FrontEnd front_end_;
};

}  // namespace cosim
