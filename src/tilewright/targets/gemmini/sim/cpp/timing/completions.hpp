// Tells the reservation station which commands are done, one per cycle.
#pragma once

#include <vector>

#include "clock.hpp"
#include "fifo.hpp"
#include "reservation_station.hpp"

namespace cosim {

class Completions {
 public:
  Completions(ReservationStation& station) : station_(station) {}

  void push(Unit unit, int slot) { done_[unit].push(slot); }
  // A compute whose operands are in the array; it gives way to products that left the array.
  void push_fed(int slot) { fed_.push(slot); }
  bool has_fed() const { return !fed_.empty(); }

  // Completes one command: products first, then loads, then stores.
  void tick() {
    if (!done_[kExecuteUnit].empty()) return take(done_[kExecuteUnit], kExecuteUnit);
    if (!fed_.empty()) return take(fed_, kExecuteUnit);
    if (!done_[kLoadUnit].empty()) return take(done_[kLoadUnit], kLoadUnit);
    if (!done_[kStoreUnit].empty()) return take(done_[kStoreUnit], kStoreUnit);
  }

 private:
  void take(Fifo<int>& queue, Unit unit) {
    station_.complete(unit, queue.front());
    queue.pop();
  }

  ReservationStation& station_;
  Fifo<int> done_[kUnits];
  Fifo<int> fed_;
};

// The moves a DMA works on: each completes when all its bytes (or rows) are through.
class CommandTracker {
 public:
  CommandTracker(Unit unit, int capacity, Completions& completions)
      : unit_(unit), moves_(static_cast<std::size_t>(capacity)), completions_(completions) {}

  // An index for a new move, or -1 when too many are under way.
  int start(int slot, int amount) {
    for (std::size_t i = 0; i < moves_.size(); i++) {
      if (moves_[i].is_active) continue;
      moves_[i] = {true, slot, amount};
      return static_cast<int>(i);
    }
    return -1;
  }

  void advance(int index, int amount) {
    Move& move = moves_[static_cast<std::size_t>(index)];
    move.left -= amount;
    if (move.left > 0) return;
    move.is_active = false;
    completions_.push(unit_, move.slot);
  }

 private:
  struct Move {
    bool is_active = false;
    int slot = 0;
    int left = 0;
  };

  Unit unit_;
  std::vector<Move> moves_;
  Completions& completions_;
};

}  // namespace cosim
