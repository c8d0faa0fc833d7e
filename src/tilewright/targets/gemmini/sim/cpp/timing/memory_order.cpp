#include "memory_order.hpp"

#include <cstdio>
#include <utility>

namespace cosim {

OpenOrder MemoryOrder::next() {
  OpenOrder order = std::move(memory_.open_orders().front());
  memory_.open_orders().pop_front();
  return order;
}

void MemoryOrder::send(u64 count, u64 sequence) {
  for (; count > 0; count--) watches_.push_back({sequence, next()});
}

void MemoryOrder::access(u64 count) {
  for (; count > 0; count--) {
    const OpenOrder order = next();
    require_landed(order);
    this->count(order);
  }
}

void MemoryOrder::skip(u64 count) {
  for (; count > 0; count--) next();
}

void MemoryOrder::read(u64 sequence, u64 address, u64 bytes) {
  if (!watches_.empty()) meet(FaultKind::unordered_dram_read, sequence, address, bytes);
}

void MemoryOrder::write(u64 sequence, u64 address, u64 bytes) {
  if (!watches_.empty()) meet(FaultKind::unordered_dram_write, sequence, address, bytes);
}

void MemoryOrder::meet(FaultKind kind, u64 sequence, u64 address, u64 bytes) {
  for (std::size_t i = 0; i < watches_.size();) {
    const OpenOrder& order = watches_[i].order;
    // A loop's loads and stores are of one command.
    const bool is_this = order.kind == kind && watches_[i].sequence == sequence &&
                         address < order.address + order.bytes && order.address < address + bytes;
    if (!is_this) {
      i++;
      continue;
    }
    require_landed(order);
    count(order);
    watches_.erase(watches_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void MemoryOrder::require_landed(const OpenOrder& order) const {
  if ((order.is_behind_load ? rows_read_ : rows_written_) > order.earlier_row) return;
  Fault fault{FaultKind::raced_dram_access, order.message + "; in this run it overtakes it"};
  if (order.kind == FaultKind::unordered_dram_read) fault.message += stale_data(order);
  fault.pc = order.pc;
  fault.second_pc = order.earlier_pc;
  throw fault;
}

// The data that the read gets, if they differ from those that other commands have stored since.
std::string MemoryOrder::stale_data(const OpenOrder& order) const {
  const Region* region = memory_.find(order.address, order.bytes);
  const u8* now = region->bytes.data() + (order.address - region->base);
  const std::vector<u8> stored =
      memory_.store_log().before(order.earlier_row + 1, order.address, now, order.bytes);
  const std::vector<u8> old =
      memory_.store_log().before(rows_written_, order.address, now, order.bytes);
  for (u64 i = 0; i < order.bytes; i++) {
    if (old[i] == stored[i]) continue;
    char text[128];
    std::snprintf(text, sizeof text, " and gets the old data: the byte at 0x%llx is %d, not %d",
                  static_cast<unsigned long long>(order.address + i), static_cast<i8>(old[i]),
                  static_cast<i8>(stored[i]));
    return text;
  }
  return " and gets the old data, which is the same";
}

void MemoryOrder::count(const OpenOrder& order) {
  for (UnorderedPair& pair : unordered_) {
    if (pair.first.pc == order.pc && pair.first.earlier_pc == order.earlier_pc &&
        pair.first.kind == order.kind) {
      pair.count++;
      return;
    }
  }
  unordered_.push_back({order, 1});
}

}  // namespace cosim
