#include "front_end.hpp"

#include <algorithm>

namespace cosim {
namespace {

// From a queue entry that the CPU sees free to the write-back of a command that waits in decode.
constexpr Cycle kDecodeToWriteBack = 4;
constexpr std::size_t kQueueEntries = 2;

}  // namespace

FrontEnd::FrontEnd(const Config& config, Clock& clock, EventSource& source, CpuCache& cache,
                   MemorySystem& memory, ReservationStation& station, MemoryOrder& order,
                   Memory& contents, Breakdown& breakdown)
    : config_(config),
      clock_(clock),
      source_(source),
      cache_(cache),
      memory_(memory),
      station_(station),
      order_(order),
      contents_(contents),
      breakdown_(breakdown),
      unroller_(config, clock, station) {}

void FrontEnd::skip_to_mark() {
  while (const Event* event = source_.peek()) {
    const EventKind kind = event->kind;
    order_.skip(event->open_orders);
    if (kind == EventKind::load || kind == EventKind::store) {
      cache_.access(event->rs1, kind == EventKind::store);
    }
    if (kind == EventKind::end) return;
    source_.pop();
    if (kind == EventKind::mark) return;
  }
}

void FrontEnd::allocate() {
  allocate_unrolled();
  if (!queue_.empty() && queue_.front().ready <= clock_.now &&
      allocate_queued(queue_.front().command)) {
    queue_.pop();
    // The free entry moves from queue to queue towards the CPU.
    freed_.push(clock_.now + static_cast<Cycle>(config_.commands_front_queues));
    clock_.changed = true;
  }
  unroller_.tick();
}

void FrontEnd::allocate_unrolled() {
  Fifo<LoopUnroller::Sent>& sent = unroller_.output;
  if (sent.empty() || sent.front().ready > clock_.now) return;
  if (station_.allocate(sent.front().command)) sent.pop();
}

// False while the command must wait.
bool FrontEnd::allocate_queued(const TimedCommand& command) {
  if (is_loop_command(command.funct)) return unroller_.take(command);
  if (unroller_.is_busy()) return false;
  if (command.funct == kFlush || station_.allocate(command)) return true;
  // Full load and store entries count where they leave the array idle: see `idle_cause`.
  if (ReservationStation::unit_of(command) == kExecuteUnit) {
    breakdown_.add(Cause::rs_full_execute, command.pc);
  }
  return false;
}

CpuStatus FrontEnd::tick(bool accelerator_is_busy) {
  const bool is_idle = !accelerator_is_busy && queue_.empty();
  if (is_idle && !is_idle_) idle_from_ = clock_.now;
  is_idle_ = is_idle;
  while (const Event* event = source_.peek()) {
    if (!is_timed_) {
      cpu_time_ += event->cpu_cycles;
      event_pc_ = event->pc;
      is_timed_ = true;
      clock_.changed = true;
    }
    if (cpu_time_ > clock_.now) return CpuStatus::running;
    const bool is_busy = accelerator_is_busy || !queue_.empty() || unroller_.is_busy();
    switch (event->kind) {
      case EventKind::command:
        if (!send(*event)) return CpuStatus::running;
        break;
      case EventKind::fence:
        if (wait_at_fence(*event, is_busy)) return CpuStatus::running;
        break;
      case EventKind::load:
      case EventKind::store:
        order_.access(event->open_orders);
        if (!cache_.access(event->rs1, event->kind == EventKind::store)) {
          miss(*event, clock_.now, config_.cpu_l1_refill);
        }
        break;
      case EventKind::fetch: miss(*event, fetch_begun(), config_.cpu_fetch_refill); break;
      case EventKind::mark: return CpuStatus::finished;
      case EventKind::end:
        if (wait_at_fence(*event, is_busy)) return CpuStatus::running;
        return CpuStatus::finished;
    }
    finish_event();
  }
  return CpuStatus::source_limit;
}

void FrontEnd::finish_event() {
  source_.pop();
  is_timed_ = false;
  clock_.changed = true;
}

// A line that a cache of the CPU does not hold comes from the L2; the instruction is replayed.
void FrontEnd::miss(const Event& event, Cycle begun, int refill) {
  MemoryRequest read;
  read.bytes = config_.l2_line_bytes;
  read.address = event.rs1 & ~static_cast<u64>(read.bytes - 1);
  const Cycle ready = memory_.access(read, begun).first_beat + static_cast<Cycle>(refill);
  if (ready <= clock_.now) return;
  cpu_time_ = ready;
  waits_from_ = clock_.now;
  waits_until_ = missed_until_ = ready;
  missed_ = wait_of(event);
  missed_pc_ = event.pc;
  const Cause wait = missed_ == Cause::cpu_fetch     ? Cause::fetch_wait
                     : missed_ == Cause::cpu_literal ? Cause::literal_wait
                                                     : Cause::data_wait;
  breakdown_.count(wait, event.pc, ready - clock_.now);
}

// Read-only data of the kernel's own are constants that the compiler placed in memory.
Cause FrontEnd::wait_of(const Event& event) const {
  if (event.kind == EventKind::fetch) return Cause::cpu_fetch;
  const Region* region = contents_.find(event.rs1, 1);
  const bool is_literal = region && !region->writable && !region->input;
  return is_literal ? Cause::cpu_literal : Cause::cpu_data;
}

// Instructions are fetched ahead, also while the CPU waits.
Cycle FrontEnd::fetch_begun() const {
  const Cycle ahead = std::min(clock_.now, static_cast<Cycle>(config_.cpu_fetch_queue));
  const bool has_waited = clock_.now - ahead < waits_until_;
  return has_waited ? waits_from_ : clock_.now - ahead;
}

// True while the CPU waits.
bool FrontEnd::wait_at_fence(const Event& event, bool is_busy) {
  if (is_busy) {
    if (!is_at_fence_) {
      clock_.changed = true;
      waits_from_ = clock_.now;
    }
    is_at_fence_ = true;
    breakdown_.add(Cause::fence_wait, event.pc);
    return true;
  }
  // It waits in decode, and leaves when the accelerator is seen idle there.
  cpu_time_ = std::max(clock_.now, idle_from_ + static_cast<Cycle>(config_.cpu_fence_latency));
  if (is_at_fence_) waits_until_ = cpu_time_;
  is_at_fence_ = false;
  return false;
}

bool FrontEnd::has_space() {
  while (!freed_.empty() && freed_.front() <= clock_.now) freed_.pop();
  return queue_.size() + freed_.size() <
         kQueueEntries * static_cast<std::size_t>(config_.commands_front_queues);
}

// False when the queue is full: the CPU replays the command, which then waits in decode.
bool FrontEnd::send(const Event& event) {
  if (!has_space()) {
    if (!is_blocked_) {
      replayed_ = clock_.now + static_cast<Cycle>(config_.cpu_replay);
      waits_from_ = clock_.now;
      clock_.changed = true;
    }
    is_blocked_ = true;
    breakdown_.add(Cause::command_wait, event.pc);
    return false;
  }
  if (is_blocked_) {
    is_blocked_ = false;
    cpu_time_ = waits_until_ = std::max(replayed_, clock_.now + kDecodeToWriteBack);
    clock_.changed = true;
    return false;
  }
  TimedCommand command(event.funct, event.rs1, event.rs2, event.pc);
  command.sequence = sent_++;
  order_.send(event.open_orders, command.sequence);
  queue_.push({command, clock_.now + static_cast<Cycle>(config_.commands_front_queues)});
  cpu_time_ = clock_.now;
  return true;
}

Cause FrontEnd::idle_cause(u64& pc) const {
  if (const TimedCommand* waiting = station_.waiting_execute()) {
    if (const TimedCommand* load = station_.blocker_of_waiting_execute(kLoadUnit)) {
      pc = load->pc;
      return Cause::dma_wait;
    }
    if (const TimedCommand* store = station_.blocker_of_waiting_execute(kStoreUnit)) {
      pc = store->pc;
      return Cause::store_wait;
    }
    pc = waiting->pc;
    return Cause::dependency;
  }
  if (unroller_.waits_for_loads(pc)) return Cause::rs_full_load;
  if (!queue_.empty() && queue_.front().ready <= clock_.now && !unroller_.is_busy()) {
    const TimedCommand& head = queue_.front().command;
    pc = head.pc;
    const Unit unit = ReservationStation::unit_of(head);
    if (unit == kLoadUnit) return Cause::rs_full_load;
    if (unit == kStoreUnit) return Cause::rs_full_store;
  }
  if (clock_.now < missed_until_) {
    pc = missed_pc_;
    return missed_;
  }
  pc = event_pc_;
  return is_at_fence_ ? Cause::fence : Cause::cpu;
}

void FrontEnd::add_wakeups(Wakeup& wakeup) const {
  if (!queue_.empty()) wakeup.at(queue_.front().ready);
  if (is_blocked_ && !freed_.empty()) wakeup.at(freed_.front());
  wakeup.at(cpu_time_);
  wakeup.at(missed_until_);
  unroller_.add_wakeups(wakeup);
}

}  // namespace cosim
