// The hardware loop unrollers in time: two loops in flight, each of whose parts sends its commands
// in order, at most one command of all per cycle.
#pragma once

#include <array>
#include <memory>

#include "../config.hpp"
#include "../loop_registers.hpp"
#include "clock.hpp"
#include "fifo.hpp"
#include "reservation_station.hpp"
#include "timed_command.hpp"

namespace cosim {

class LoopUnroller {
 public:
  LoopUnroller(const Config& config, Clock& clock, const ReservationStation& station);

  // Takes a loop command; false while two loops are in flight.
  bool take(const TimedCommand& command);

  // Sends at most one command to `output`.
  void tick();

  // Whether other commands must wait.
  bool is_busy() const { return loops_[0].loop || loops_[1].loop || !output.empty(); }
  // Whether products wait for loads that cannot be sent, and the instruction that began the loop.
  bool waits_for_loads(u64& pc) const;

  void add_wakeups(Wakeup& wakeup) const;

  // Commands for the reservation station; a queue of two.
  struct Sent {
    TimedCommand command;
    Cycle ready = 0;
  };
  Fifo<Sent> output;

 private:
  struct Part {
    std::unique_ptr<LoopStream> stream;
    bool has_started = false;
    Cycle ready = 0;  // when its first command can leave
  };
  struct Flight {
    std::unique_ptr<Loop> loop;
    u64 pc = 0;
    u64 sequence = 0;
    std::array<Part, kLoopRoles> parts;
    bool is_done(LoopRole role) const {
      const Part& part = parts[role];
      return part.has_started && part.stream->is_done;
    }
  };

  void retire();
  void start_parts();
  bool may_start(const Flight& flight, LoopRole role) const;
  bool is_full(LoopRole role) const;
  bool can_send(const Flight& flight, LoopRole role) const;
  Flight* chosen(LoopRole& role);
  Flight* sender(LoopRole role);
  LoopRole next_operand(const Flight& flight) const;
  void send(Flight& flight, LoopRole role);
  Flight& other(const Flight& flight) { return loops_[&flight == &loops_[0]]; }

  const Config config_;
  Clock& clock_;
  const ReservationStation& station_;
  LoopRegisters registers_;
  std::array<Flight, 2> loops_;
  int head_ = 0;  // the older one
};

}  // namespace cosim
