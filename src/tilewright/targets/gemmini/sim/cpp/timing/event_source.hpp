// The program's events, produced as the timing model asks for them: no whole trace is held.
#pragma once

#include <vector>

#include "../event.hpp"
#include "../hart.hpp"

namespace cosim {

class EventSource {
 public:
  EventSource(Hart& hart, std::size_t batch) : hart_(hart), batch_(batch) {}

  // The next event, or nullptr when a limit stopped the program. Throws the program's Fault.
  const Event* peek() {
    if (next_ == events_.size()) refill();
    return next_ < events_.size() ? &events_[next_] : nullptr;
  }
  void pop() { next_++; }

 private:
  void refill() {
    events_.clear();
    next_ = 0;
    if (!is_over_) is_over_ = hart_.run(events_, batch_) != HartStatus::running;
  }

  Hart& hart_;
  const std::size_t batch_;
  std::vector<Event> events_;
  std::size_t next_ = 0;
  bool is_over_ = false;
};

}  // namespace cosim
