// Tells the reservation station which commands are done, one per cycle.
#pragma once

#include <vector>

#include "clock.hpp"
#include "fifo.hpp"
#include "reservation_station.hpp"

namespace cosim {

// The moves a DMA works on: each is done when all its bytes (or rows) are through.
class CommandTracker {
 public:
  CommandTracker(const Clock& clock, int capacity)
      : clock_(clock), moves_(static_cast<std::size_t>(capacity)) {}

  // An index for a new move, or -1 when too many are under way.
  int start(int slot, int amount) {
    for (std::size_t i = 0; i < moves_.size(); i++) {
      if (moves_[i].is_active) continue;
      moves_[i] = {true, slot, amount, 0};
      return static_cast<int>(i);
    }
    return -1;
  }

  void advance(int index, int amount) {
    Move& move = moves_[static_cast<std::size_t>(index)];
    move.left -= amount;
    if (move.left > 0) return;
    move.done = clock_.now;
    done_++;
  }

  bool has_done() const { return done_ > 0; }

  // Ends a move that was done before this cycle and gives its slot, -1 for none.
  int take_done() {
    if (done_ == 0) return -1;
    for (Move& move : moves_) {
      if (!move.is_active || move.left > 0 || move.done == clock_.now) continue;
      move.is_active = false;
      done_--;
      return move.slot;
    }
    return -1;
  }

 private:
  struct Move {
    bool is_active = false;
    int slot = 0;
    int left = 0;
    Cycle done = 0;
  };

  const Clock& clock_;
  std::vector<Move> moves_;
  int done_ = 0;
};

class Completions {
 public:
  Completions(const Clock& clock, ReservationStation& station, CommandTracker& loads,
              CommandTracker& stores)
      : clock_(clock), station_(station), loads_(loads), stores_(stores) {}

  // A product that left the array.
  void push_product(int slot) { products_.push(slot); }
  // A command whose operands are all read; it gives way to products.
  void push_fed(int slot) { fed_.push({slot, clock_.now}); }
  bool has_fed() const { return !fed_.empty(); }

  // Completes one command: products first, then loads, then stores.
  void tick() {
    if (!products_.empty()) {
      station_.complete(kExecuteUnit, products_.front());
      products_.pop();
    } else if (!fed_.empty() && fed_.front().time < clock_.now) {
      station_.complete(kExecuteUnit, fed_.front().slot);
      fed_.pop();
    } else if (const int load = loads_.take_done(); load >= 0) {
      station_.complete(kLoadUnit, load);
    } else if (const int store = stores_.take_done(); store >= 0) {
      station_.complete(kStoreUnit, store);
    }
  }

  void add_wakeups(Wakeup& wakeup) const {
    const bool is_waiting =
        !products_.empty() || !fed_.empty() || loads_.has_done() || stores_.has_done();
    if (is_waiting) wakeup.at(clock_.now + 1);
  }

 private:
  struct Fed {
    int slot = 0;
    Cycle time = 0;
  };

  const Clock& clock_;
  ReservationStation& station_;
  CommandTracker& loads_;
  CommandTracker& stores_;
  Fifo<int> products_;
  Fifo<Fed> fed_;
};

}  // namespace cosim
