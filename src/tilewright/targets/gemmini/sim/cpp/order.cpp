#include "order.hpp"

#include <algorithm>

namespace cosim {

void StoreLog::add(u64 row, u64 address, const u8* before, u64 bytes) {
  if (rows_.size() == kRows) rows_.pop_front();
  rows_.push_back({row, address, {before, before + bytes}});
}

std::vector<u8> StoreLog::before(u64 row, u64 address, const u8* now, u64 bytes) const {
  std::vector<u8> out(now, now + bytes);
  for (auto stored = rows_.rbegin(); stored != rows_.rend() && stored->number >= row; ++stored) {
    const u64 first = std::max(address, stored->address);
    const u64 end = std::min(address + bytes, stored->address + stored->before.size());
    for (u64 at = first; at < end; at++) out[at - address] = stored->before[at - stored->address];
  }
  return out;
}

}  // namespace cosim
