// Simulated time, shared by all units.
#pragma once

#include "../types.hpp"

namespace cosim {

struct Clock {
  Cycle now = 0;
  // Set by any unit whose state changed in this cycle. A cycle without change repeats until the
  // next thing that was scheduled for a later cycle.
  bool changed = false;
};

// The earliest scheduled time after `now` that a unit has seen.
class Wakeup {
 public:
  explicit Wakeup(Cycle now) : now_(now) {}
  void at(Cycle time) {
    if (time > now_ && time < next_) next_ = time;
  }
  Cycle next() const { return next_; }
  static constexpr Cycle kNever = ~Cycle{0};

 private:
  Cycle now_;
  Cycle next_ = kNever;
};

}  // namespace cosim
