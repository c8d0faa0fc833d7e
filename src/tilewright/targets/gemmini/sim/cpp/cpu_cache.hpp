// The tags of one of Rocket's L1 caches: random replacement.
#pragma once

#include <vector>

#include "config.hpp"
#include "types.hpp"

namespace cosim {

class CpuCache {
 public:
  explicit CpuCache(const Config& config);

  // Whether an access hits; a miss brings the line in, to be read and written. A store to a line
  // that the accelerator has read since then misses.
  bool access(u64 address, bool is_store);

  // Takes a line out of write state because the accelerator reads it. True if it was in it: the
  // L2 must ask for it.
  bool share(u64 address);

  // Drops a line because the accelerator writes it.
  void drop(u64 address);

 private:
  struct Line {
    u64 tag = ~0ull;
    bool writable = false;
  };

  Line* find(u64 line);

  const int ways_;
  const u64 sets_;
  int line_shift_ = 0;
  std::vector<Line> lines_;  // [set][way]
  u32 random_ = 2463534242u;  // fixed, so that runs repeat exactly
};

}  // namespace cosim
