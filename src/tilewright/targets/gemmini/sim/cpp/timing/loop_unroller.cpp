#include "loop_unroller.hpp"

#include <algorithm>

namespace cosim {
namespace {

Unit unit_of(LoopRole role) {
  if (role == kExecute) return kExecuteUnit;
  return role == kStore ? kStoreUnit : kLoadUnit;
}

bool is_convolution(u8 funct) { return funct >= kLoopConvWs; }

}  // namespace

LoopUnroller::LoopUnroller(const Config& config, Clock& clock, const ReservationStation& station)
    : config_(config), clock_(clock), station_(station), registers_(config) {}

bool LoopUnroller::take(const TimedCommand& command) {
  Flight& oldest = loops_[head_];
  Flight& free = oldest.loop ? other(oldest) : oldest;
  if (free.loop) return false;
  // The two unrollers work in series: one waits until the other is done.
  if (oldest.loop && oldest.loop->is_convolution() != is_convolution(command.funct)) return false;
  clock_.changed = true;
  free.loop = registers_.take(command.funct, command.rs1, command.rs2);
  if (!free.loop) return true;
  free.pc = command.pc;
  free.sequence = command.sequence;
  for (int role = 0; role < kLoopRoles; role++) {
    free.parts[role] = {free.loop->stream(static_cast<LoopRole>(role))};
  }
  return true;
}

void LoopUnroller::tick() {
  if (!loops_[0].loop && !loops_[1].loop) return;
  retire();
  start_parts();
  if (output.size() >= static_cast<std::size_t>(config_.commands_loop_queue)) return;
  LoopRole role = kStore;
  if (Flight* flight = chosen(role)) send(*flight, role);
}

void LoopUnroller::retire() {
  Flight& oldest = loops_[head_];
  if (!oldest.loop) return;
  for (int role = 0; role < kLoopRoles; role++) {
    if (!oldest.is_done(static_cast<LoopRole>(role))) return;
  }
  oldest = {};
  head_ ^= 1;
  clock_.changed = true;
}

void LoopUnroller::start_parts() {
  for (Flight* flight : {&loops_[head_], &loops_[head_ ^ 1]}) {
    for (int r = 0; r < kLoopRoles && flight->loop; r++) {
      const LoopRole role = static_cast<LoopRole>(r);
      if (!may_start(*flight, role)) continue;
      flight->parts[role].has_started = true;
      flight->parts[role].ready =
          clock_.now + 1 + (flight->loop->is_convolution()
                                 ? static_cast<Cycle>(config_.commands_convolution_latency)
                                 : 0);
      clock_.changed = true;
    }
  }
}

// A part works on the older loop first, and on one at a time.
bool LoopUnroller::may_start(const Flight& flight, LoopRole role) const {
  if (flight.parts[role].has_started) return false;
  const Flight& oldest = loops_[head_];
  if (&flight != &oldest && oldest.loop && !oldest.is_done(role)) return false;
  if (role == kStore) return flight.parts[kExecute].has_started;
  if (role != kExecute) return true;
  return flight.parts[kLoadA].has_started && flight.parts[kLoadB].has_started &&
         flight.parts[kLoadD].has_started;
}

// Whether as many of a part's commands are under way as the reservation station holds.
bool LoopUnroller::is_full(LoopRole role) const {
  const Unit unit = unit_of(role);
  int commands = station_.entries(unit);
  for (std::size_t i = 0; i < output.size(); i++) {
    commands += ReservationStation::unit_of(output[i].command) == unit;
  }
  return commands >= station_.capacity(unit);
}

bool LoopUnroller::can_send(const Flight& flight, LoopRole role) const {
  const Part& part = flight.parts[role];
  if (part.ready > clock_.now || is_full(role)) return false;
  const auto& stream = [&](LoopRole r) -> const LoopStream& { return *flight.parts[r].stream; };
  if (role == kStore) return flight.loop->is_computed(stream(kStore), stream(kExecute));
  if (role == kExecute) {
    return flight.is_done(kLoadD) &&
           flight.loop->is_loaded(stream(kExecute), stream(kLoadA), stream(kLoadB));
  }
  const Flight& oldest = loops_[head_];
  if (!flight.loop->is_convolution() || &flight == &oldest) return true;
  // Loads for the next convolution wait until the current one has all of its own.
  return !oldest.loop || oldest.is_done(kExecute) ||
         (oldest.is_done(kLoadA) && oldest.is_done(kLoadB) && oldest.is_done(kLoadD));
}

// The loop that a part works on.
LoopUnroller::Flight* LoopUnroller::sender(LoopRole role) {
  for (Flight* flight : {&loops_[head_], &loops_[head_ ^ 1]}) {
    if (flight->loop && flight->parts[role].has_started && !flight->is_done(role)) return flight;
  }
  return nullptr;
}

// Loads of A and B of one matrix loop keep pace with each other along the depth.
LoopRole LoopUnroller::next_operand(const Flight& flight) const {
  if (flight.is_done(kLoadA)) return kLoadB;
  if (flight.is_done(kLoadB)) return kLoadA;
  const LoopStream& a = *flight.parts[kLoadA].stream;
  const LoopStream& b = *flight.parts[kLoadB].stream;
  return a.k > b.k || (b.k == 0 && b.j == 0) ? kLoadB : kLoadA;
}

// Stores go before products, and those before loads; nullptr when nothing can be sent.
LoopUnroller::Flight* LoopUnroller::chosen(LoopRole& role) {
  for (const LoopRole first : {kStore, kExecute, kLoadD}) {
    role = first;
    Flight* flight = sender(role);
    if (flight && can_send(*flight, role)) return flight;
  }
  Flight* a = sender(kLoadA);
  Flight* b = sender(kLoadB);
  if (!a && !b) return nullptr;
  Flight* oldest = &loops_[head_];
  if (a && b && a == b) {
    const bool b_first = a->loop->is_convolution() ? can_send(*b, kLoadB)
                                                   : next_operand(*a) == kLoadB;
    role = b_first ? kLoadB : kLoadA;
  } else {
    role = b && (!a || b == oldest) ? kLoadB : kLoadA;
  }
  Flight* flight = role == kLoadA ? a : b;
  return can_send(*flight, role) ? flight : nullptr;
}

void LoopUnroller::send(Flight& flight, LoopRole role) {
  LoopStream& stream = *flight.parts[role].stream;
  const CommandWords words = stream.command();
  TimedCommand command(words.funct, words.rs1, words.rs2, flight.pc);
  command.sequence = flight.sequence;
  output.push({command, clock_.now + 1});
  stream.advance();
  clock_.changed = true;
}

bool LoopUnroller::waits_for_loads(u64& pc) const {
  const Flight& oldest = loops_[head_];
  if (!oldest.loop || oldest.is_done(kExecute) || !is_full(kLoadA)) return false;
  pc = oldest.pc;
  return !(oldest.is_done(kLoadA) && oldest.is_done(kLoadB) && oldest.is_done(kLoadD));
}

void LoopUnroller::add_wakeups(Wakeup& wakeup) const {
  if (!output.empty()) wakeup.at(output.front().ready);
  for (const Flight& flight : loops_) {
    for (const Part& part : flight.parts) {
      if (part.has_started && !part.stream->is_done) wakeup.at(part.ready);
    }
  }
}

}  // namespace cosim
