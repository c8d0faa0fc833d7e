// The shared L2 cache (a bank of the inclusive cache) and the DRAM behind it.
#pragma once

#include <vector>

#include "../config.hpp"
#include "../types.hpp"

namespace cosim {

// A request for an aligned power of two of bytes within a line.
struct MemoryRequest {
  u64 address = 0;
  int bytes = 0;
  bool is_write = false;
  bool fills_window = false;  // a write of every byte
  bool in_cpu_cache = false;  // the CPU holds the line, and is asked for it first
};

struct MemoryAnswer {
  Cycle first_beat = 0;
  Cycle beat_cycles = 1;  // from one beat of the answer to the next
  bool is_hit = false;
};

// Cycles in which a shared resource is taken.
class Timeline {
 public:
  // Takes `length` cycles together, none of them before `earliest`; gives the first.
  Cycle reserve(Cycle earliest, Cycle length);
  // Forgets what ended before `now`.
  void forget(Cycle now) {
    while (first_ < taken_.size() && taken_[first_].end < now) first_++;
    if (first_ >= kForgotten) erase_forgotten();
  }

 private:
  struct Interval {
    Cycle begin = 0;
    Cycle end = 0;
  };
  static constexpr std::size_t kForgotten = 64;

  void erase_forgotten();

  std::vector<Interval> taken_;  // sorted
  std::size_t first_ = 0;        // that is not forgotten
};

class MemorySystem {
 public:
  explicit MemorySystem(const Config& config);

  // The answer to a request that leaves for the L2 at `time`. Times of calls must not decrease by
  // more than requests can overtake each other in the DMA.
  MemoryAnswer access(const MemoryRequest& request, Cycle time);

 private:
  struct Line {
    u64 tag = ~0ull;
    bool dirty = false;
  };
  // What works on one request (an MSHR). It owns the request's set.
  struct Handler {
    u64 line = ~0ull;
    Cycle done = 0;  // the last cycle it is busy
  };
  struct Refill {
    Cycle first = 0;  // the first and last beat of the line, or of the permission to write it
    Cycle last = 0;
    Cycle done = 0;   // when the handler has nothing more to wait for
  };

  Line* find(u64 line);
  Line& victim(u64 line);
  Handler& handler_of(u64 line, Cycle arrived, bool& has_waited);
  Refill refill(const Line& victim, Cycle time, bool fetches, bool is_saturated);

  const Config config_;
  const u64 sets_;
  int line_shift_ = 0;
  int bus_shift_ = 0;
  Cycle refill_beat_cycles_;
  std::vector<Line> lines_;      // [set][way]
  std::vector<Handler> handlers_;
  Cycle port_free_ = 0;          // requests come in one after the other
  Timeline answers_;             // beats on their way to whoever asked
  Timeline dram_requests_;       // beats to DRAM
  Timeline dram_answers_;        // beats from DRAM
  Cycle eviction_free_ = 0;      // dirty victims are read one after the other
  u32 random_ = 2463534242u;     // victims; fixed, so that runs repeat exactly
};

}  // namespace cosim
