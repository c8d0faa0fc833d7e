#include "memory_system.hpp"

#include <algorithm>

namespace cosim {

MemorySystem::MemorySystem(const Config& config)
    : config_(config),
      sets_(static_cast<u64>(config.l2_bytes / config.l2_line_bytes / config.l2_ways)),
      lines_(static_cast<std::size_t>(config.l2_bytes / config.l2_line_bytes)) {
  while ((1 << line_shift_) < config.l2_line_bytes) line_shift_++;
}

Cycle MemorySystem::access(u64 address, Cycle time, MemoryAccess kind, bool in_cpu_cache) {
  const u64 line_number = address >> line_shift_;
  const Cycle start = std::max(time, port_free_);
  port_free_ = start + 1;
  const bool writes = kind != MemoryAccess::read;
  const Cycle hit_latency = static_cast<Cycle>(
      config_.l2_hit_latency + (in_cpu_cache ? config_.l2_probe_latency : 0));
  if (Line* line = find(line_number)) {
    was_hit_ = true;
    line->dirty |= writes;
    const bool is_coming = line->ready > start;
    const Cycle ready = line->ready + static_cast<Cycle>(is_coming ? config_.l2_second_request : 0);
    return std::max(ready, start + hit_latency);
  }
  was_hit_ = false;
  const Cycle granted = wait_for_mshr(start);
  Line& line = evict(line_number);
  const Cycle eviction = eviction_cycles(line);
  line = {line_number, 0, writes};
  if (kind == MemoryAccess::full_line_write) {
    hold_mshr(granted + static_cast<Cycle>(config_.l2_full_line_hold) + eviction);
    return granted + hit_latency + static_cast<Cycle>(config_.l2_full_line_store);
  }
  const auto transfer = static_cast<Cycle>(config_.dram_line_cycles);
  const Cycle ready =
      std::max(granted + hit_latency + static_cast<Cycle>(config_.dram_latency),
               dram_free_ + transfer);
  dram_free_ = ready;
  hold_mshr(ready + eviction + static_cast<Cycle>(config_.l2_mshr_release));
  line.ready = ready;
  return ready;
}

MemorySystem::Line* MemorySystem::find(u64 line) {
  Line* set = &lines_[(line & (sets_ - 1)) * static_cast<u64>(config_.l2_ways)];
  for (int way = 0; way < config_.l2_ways; way++) {
    if (set[way].tag == line) return &set[way];
  }
  return nullptr;
}

// The victim is random, even while the set has empty ways.
MemorySystem::Line& MemorySystem::evict(u64 line) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  const u64 ways = static_cast<u64>(config_.l2_ways);
  return lines_[(line & (sets_ - 1)) * ways + random_ % ways];
}

// How much longer an MSHR is held because the line gives way to another.
Cycle MemorySystem::eviction_cycles(const Line& victim) const {
  if (victim.tag == ~0ull) return 0;
  return static_cast<Cycle>(victim.dirty ? config_.l2_dirty_victim : config_.l2_clean_victim);
}

// The time at which a miss that arrives at `time` has an MSHR.
Cycle MemorySystem::wait_for_mshr(Cycle time) {
  const auto still_held = std::upper_bound(mshrs_.begin(), mshrs_.end(), time);
  mshrs_.erase(mshrs_.begin(), still_held);
  const auto capacity = static_cast<std::size_t>(config_.l2_mshrs);
  if (mshrs_.size() < capacity) return time;
  return std::max(time, mshrs_[mshrs_.size() - capacity]);
}

void MemorySystem::hold_mshr(Cycle until) {
  mshrs_.insert(std::upper_bound(mshrs_.begin(), mshrs_.end(), until), until);
}

}  // namespace cosim
