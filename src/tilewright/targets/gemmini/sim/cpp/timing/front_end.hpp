// Rocket, as the accelerator sees it: issues the program's commands at the pace of its pipeline,
// waits at fences and for its own cache, and stalls while the command queue is full.
#pragma once

#include "../config.hpp"
#include "breakdown.hpp"
#include "clock.hpp"
#include "../cpu_cache.hpp"
#include "event_source.hpp"
#include "fifo.hpp"
#include "loop_unroller.hpp"
#include "memory_order.hpp"
#include "memory_system.hpp"
#include "reservation_station.hpp"

namespace cosim {

enum class CpuStatus { running, finished, source_limit };

class FrontEnd {
 public:
  FrontEnd(const Config& config, Clock& clock, EventSource& source, CpuCache& cache,
           MemorySystem& memory, ReservationStation& station, MemoryOrder& order,
           Memory& contents, Breakdown& breakdown);

  // Drops events up to and including the first mark, keeping what they leave in the cache.
  void skip_to_mark();

  // Hands the oldest queued command to the reservation station or to the loop unroller, and what
  // that sends to the reservation station.
  void allocate();

  // Lets the CPU do what it can in this cycle. `accelerator_is_busy` is what a fence looks at,
  // apart from commands still queued here.
  CpuStatus tick(bool accelerator_is_busy);

  // Why no command reaches the array, for the breakdown.
  Cause idle_cause(u64& pc) const;

  void add_wakeups(Wakeup& wakeup) const;

 private:
  struct Queued {
    TimedCommand command;
    Cycle ready = 0;
  };

  bool wait_at_fence(const Event& event, bool is_busy);
  bool send(const Event& event);
  void allocate_unrolled();
  bool allocate_queued(const TimedCommand& command);
  bool has_space();
  void miss(const Event& event, Cycle begun, int refill);
  Cause wait_of(const Event& event) const;
  Cycle fetch_begun() const;
  void finish_event();

  const Config config_;
  Clock& clock_;
  EventSource& source_;
  CpuCache& cache_;
  MemorySystem& memory_;
  ReservationStation& station_;
  MemoryOrder& order_;
  Memory& contents_;
  Breakdown& breakdown_;

  Fifo<Queued> queue_;
  LoopUnroller unroller_;
  Fifo<Cycle> freed_;          // when the CPU sees the entries that commands left
  Cycle cpu_time_ = 0;         // when the CPU is done with what it last did
  bool is_timed_ = false;      // whether `cpu_time_` includes the next event
  bool is_at_fence_ = false;
  bool is_idle_ = false;       // what a fence looks at
  Cycle idle_from_ = 0;
  bool is_blocked_ = false;    // the next command found the queue full
  Cycle replayed_ = 0;         // when it is there again at the earliest
  u64 event_pc_ = 0;
  u64 sent_ = 0;               // commands
  Cycle waits_from_ = 0;       // when the CPU began to wait the last time
  Cycle waits_until_ = 0;
  Cause missed_ = Cause::cpu;  // what the CPU waits for, or last waited for, after a miss
  u64 missed_pc_ = 0;
  Cycle missed_until_ = 0;
};

}  // namespace cosim
