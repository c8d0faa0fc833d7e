// The tags of one of Rocket's L1 caches.
#pragma once

#include <vector>

#include "config.hpp"
#include "types.hpp"

namespace cosim {

class CpuCache {
 public:
  explicit CpuCache(const Config& config);

  // Whether an access hits; a miss brings the line in. A store to a line that is held only for
  // reading misses.
  bool access(u64 address, bool is_store);

  // Takes a line out of write state because the accelerator reads it. True if it was modified.
  bool share(u64 address);

  // Drops a line because the accelerator writes it.
  void drop(u64 address);

 private:
  struct Line {
    u64 tag = ~0ull;
    bool writable = false;
    u64 used = 0;
  };

  Line* find(u64 line);

  const int ways_;
  const u64 sets_;
  int line_shift_ = 0;
  std::vector<Line> lines_;  // [set][way]
  u64 uses_ = 0;
};

}  // namespace cosim
