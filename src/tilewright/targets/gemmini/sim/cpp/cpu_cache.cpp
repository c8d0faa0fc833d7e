#include "cpu_cache.hpp"

namespace cosim {

CpuCache::CpuCache(const Config& config)
    : ways_(config.cpu_l1_ways),
      sets_(static_cast<u64>(config.cpu_l1_bytes / config.l2_line_bytes / config.cpu_l1_ways)),
      lines_(sets_ * static_cast<u64>(ways_)) {
  while ((1 << line_shift_) < config.l2_line_bytes) line_shift_++;
}

bool CpuCache::access(u64 address, bool is_store) {
  const u64 number = address >> line_shift_;
  if (Line* line = find(number)) {
    const bool hits = line->writable || !is_store;
    line->writable |= is_store;
    return hits;
  }
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  const u64 ways = static_cast<u64>(ways_);
  lines_[(number & (sets_ - 1)) * ways + random_ % ways] = {number, true};
  return false;
}

bool CpuCache::share(u64 address) {
  Line* line = find(address >> line_shift_);
  if (!line || !line->writable) return false;
  line->writable = false;
  return true;
}

void CpuCache::drop(u64 address) {
  if (Line* line = find(address >> line_shift_)) *line = {};
}

CpuCache::Line* CpuCache::find(u64 line) {
  Line* set = &lines_[(line & (sets_ - 1)) * static_cast<u64>(ways_)];
  for (int way = 0; way < ways_; way++) {
    if (set[way].tag == line) return &set[way];
  }
  return nullptr;
}

}  // namespace cosim
