// The shared L2 cache and the DRAM behind it, as the accelerator's DMA sees them.
#pragma once

#include <vector>

#include "../config.hpp"
#include "../types.hpp"

namespace cosim {

enum class MemoryAccess { read, partial_write, full_line_write };

class MemorySystem {
 public:
  explicit MemorySystem(const Config& config);

  // When a request that reaches the L2 at `time` is answered. `in_cpu_cache` says whether the
  // CPU holds the line modified, which is fetched back first. Times of calls must not decrease
  // by more than requests can overtake each other in the DMA.
  Cycle access(u64 address, Cycle time, MemoryAccess kind, bool in_cpu_cache);

  // Whether the last access was served without DRAM.
  bool was_hit() const { return was_hit_; }

 private:
  struct Line {
    u64 tag = ~0ull;
    Cycle ready = 0;  // when its data is there
    bool dirty = false;
  };

  Line* find(u64 line);
  Line& evict(u64 line);
  Cycle eviction_cycles(const Line& victim) const;
  Cycle wait_for_mshr(Cycle time);
  void hold_mshr(Cycle until);

  const Config config_;
  const u64 sets_;
  int line_shift_ = 0;
  std::vector<Line> lines_;    // [set][way]
  std::vector<Cycle> mshrs_;   // release times, sorted
  Cycle port_free_ = 0;
  Cycle dram_free_ = 0;
  u32 random_ = 2463534242u;   // victims; fixed, so that runs repeat exactly
  bool was_hit_ = false;
};

}  // namespace cosim
