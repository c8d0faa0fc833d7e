#include "memory_system.hpp"

#include <algorithm>

namespace cosim {
namespace {

// From a request's entry to its first action, and to that of one that waited for the same line.
constexpr Cycle kDirectory = 2;
constexpr Cycle kWaited = 1;
// From the decision to evict a line to its first beat to DRAM.
constexpr Cycle kEvict = 6;

}  // namespace

Cycle Timeline::reserve(Cycle earliest, Cycle length) {
  // Most come after all others.
  std::size_t i = taken_.size();
  while (i > first_ && taken_[i - 1].end > earliest) i--;
  for (; i < taken_.size() && taken_[i].begin < earliest + length; i++) {
    earliest = std::max(earliest, taken_[i].end);
  }
  if (i == taken_.size()) {
    taken_.push_back({earliest, earliest + length});
  } else {
    taken_.insert(taken_.begin() + static_cast<std::ptrdiff_t>(i), {earliest, earliest + length});
  }
  return earliest;
}

void Timeline::erase_forgotten() {
  taken_.erase(taken_.begin(), taken_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

MemorySystem::MemorySystem(const Config& config)
    : config_(config),
      sets_(static_cast<u64>(config.l2_bytes / config.l2_line_bytes / config.l2_ways)),
      refill_beat_cycles_(static_cast<Cycle>(config.dram_line_cycles * config.dma_bus_bytes /
                                             config.l2_line_bytes)),
      lines_(static_cast<std::size_t>(config.l2_bytes / config.l2_line_bytes)),
      handlers_(static_cast<std::size_t>(config.l2_mshrs)) {
  while ((1 << bus_shift_) < config.dma_bus_bytes) bus_shift_++;
  while ((1 << line_shift_) < config.l2_line_bytes) line_shift_++;
}

// Every request, hits included, needs a handler. A request to a set that has one waits for it; any
// other takes a free one, and while there is none it blocks all later requests.
MemoryAnswer MemorySystem::access(const MemoryRequest& request, Cycle time) {
  const u64 number = request.address >> line_shift_;
  const Cycle beats = static_cast<Cycle>((request.bytes + config_.dma_bus_bytes - 1) >> bus_shift_);
  const Cycle arrived = std::max(time, port_free_);
  answers_.forget(arrived);
  dram_requests_.forget(arrived);
  dram_answers_.forget(arrived);

  bool has_waited = false;
  Handler& handler = handler_of(number, arrived, has_waited);
  const bool is_saturated = !has_waited && handler.done >= arrived;
  const Cycle begun = has_waited ? handler.done : std::max(arrived, handler.done + 1);
  port_free_ = (has_waited ? arrived : begun) + (request.is_write ? beats : 1);
  Cycle acts = begun + (has_waited && handler.line == number ? kWaited : kDirectory);

  MemoryAnswer answer;
  Line* line = find(number);
  answer.is_hit = line != nullptr;
  handler.line = number;
  handler.done = 0;
  if (!line) {
    line = &victim(number);
    const bool fills_line =
        request.is_write && request.fills_window && request.bytes == config_.l2_line_bytes;
    const Refill refilled = refill(*line, acts, !fills_line, is_saturated);
    handler.done = refilled.done;
    *line = {number, false};
    // The answer may follow the first beat only if it begins with it.
    const bool is_at_start = number << line_shift_ == request.address;
    acts = (is_at_start ? refilled.first : refilled.last) + 1;
    if (is_at_start && !request.is_write) {
      answer.beat_cycles = refill_beat_cycles_;
    }
  } else if (request.in_cpu_cache) {
    acts += static_cast<Cycle>(config_.l2_probe_latency);
  }
  line->dirty |= request.is_write;
  acts = answers_.reserve(acts, (beats - 1) * answer.beat_cycles + 1);
  if (request.is_write && !answer.is_hit) {
    port_free_ += static_cast<Cycle>(config_.l2_store_miss_cycles);
  }
  answer.first_beat = acts + static_cast<Cycle>(config_.l2_hit_latency) - kDirectory;
  handler.done = std::max(handler.done, acts);
  return answer;
}

// The handler that works on the line's set when a request arrives; else the one free first.
MemorySystem::Handler& MemorySystem::handler_of(u64 line, Cycle arrived, bool& has_waited) {
  Handler* first = &handlers_.front();
  for (Handler& handler : handlers_) {
    const bool is_same_set = ((handler.line ^ line) & (sets_ - 1)) == 0;
    if (is_same_set && handler.done >= arrived) {
      has_waited = true;
      return handler;
    }
    if (handler.done < first->done) first = &handler;
  }
  return *first;
}

// The victim leaves first; a line that is to be overwritten as a whole is not fetched.
MemorySystem::Refill MemorySystem::refill(const Line& victim, Cycle time, bool fetches,
                                          bool is_saturated) {
  Refill refill;
  const auto beats = static_cast<Cycle>(config_.dram_line_cycles);
  const bool has_victim = victim.tag != ~0ull;
  const bool is_dirty = has_victim && victim.dirty;
  if (is_dirty) {
    time = std::max(time, eviction_free_);
    eviction_free_ = time + beats;
  }
  const Cycle evicted = time;
  if (has_victim) time++;
  if (fetches) {
    time = dram_requests_.reserve(time, 1);
    // Answers to releases of clean lines come the same way. Lines go before them, so they cost
    // nothing until the requests that wait for them hold up others.
    const bool is_held_up = has_victim && is_saturated;
    refill.first = dram_answers_.reserve(
        time + static_cast<Cycle>(config_.dram_latency),
        beats + (is_held_up ? static_cast<Cycle>(config_.l2_release_cycles) : 0));
    refill.last = refill.first + beats - 1;
  } else {
    refill.first = refill.last = time + static_cast<Cycle>(config_.l2_permission_latency);
  }
  refill.done = refill.last + 1;
  if (is_dirty) {
    const Cycle written = dram_requests_.reserve(evicted + kEvict, beats) + beats;
    const Cycle acknowledged =
        dram_answers_.reserve(written + static_cast<Cycle>(config_.dram_latency), 1);
    refill.done = std::max(refill.done,
                           acknowledged + static_cast<Cycle>(config_.l2_release_latency));
  }
  return refill;
}

MemorySystem::Line* MemorySystem::find(u64 line) {
  Line* set = &lines_[(line & (sets_ - 1)) * static_cast<u64>(config_.l2_ways)];
  for (int way = 0; way < config_.l2_ways; way++) {
    if (set[way].tag == line) return &set[way];
  }
  return nullptr;
}

// The victim is random, even while the set has empty ways.
MemorySystem::Line& MemorySystem::victim(u64 line) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  const u64 ways = static_cast<u64>(config_.l2_ways);
  return lines_[(line & (sets_ - 1)) * ways + random_ % ways];
}

}  // namespace cosim
