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
  fence,
  drain,
  rs_full_execute,
  accumulator_port,
  command_wait,
  fence_wait,
  l2_hit,
  l2_miss,
  count,
};

class Breakdown {
 public:
  void add(Cause cause, u64 pc);

  void begin_cycle() { recent_.clear(); }

  // Counts the causes of the current cycle `times` more: nothing changed for so long.
  void repeat(u64 times);

  void report(std::vector<std::pair<std::string, u64>>& counts,
              std::vector<Hotspot>& hotspots) const;

 private:
  struct Counter {
    u64 total = 0;
    u64 last_pc = 0;
    u64* last = nullptr;  // the count of `last_pc`: the same instruction often comes again
    std::unordered_map<u64, u64> by_pc;
  };

  void add(Cause cause, u64 pc, u64 times);

  std::array<Counter, static_cast<std::size_t>(Cause::count)> counters_;
  std::vector<std::pair<Cause, u64>> recent_;
};

}  // namespace cosim
