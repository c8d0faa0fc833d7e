#include "memory.hpp"

#include <algorithm>
#include <stdexcept>

#include "conditions.hpp"

namespace cosim {
namespace {

const char* verb(Accessor accessor) {
  switch (accessor) {
    case Accessor::cpu_load: return "the CPU reads";
    case Accessor::cpu_store: return "the CPU writes";
    case Accessor::mvin: return "mvin reads";
    case Accessor::mvout: return "mvout writes";
  }
  return "";
}

[[noreturn]] void throw_outside(u64 address, u64 size, Accessor accessor) {
  throw_fault(FaultKind::illegal_address,
              "%s %llu bytes at 0x%llx, outside the kernel's arguments, code and stack",
              verb(accessor), static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(address));
}

// Per byte: 1 + the row that moved it last.
void mark_rows(std::vector<u32>& rows, const Region& region, u64 address, u64 size, u64 number) {
  if (rows.empty()) rows.resize(region.bytes.size(), 0);
  std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(address - region.base), size,
              static_cast<u32>(number));
}

u64 newest_row(const std::vector<u32>& rows, const Region& region, u64 address, u64 size) {
  const u32* first = rows.data() + (address - region.base);
  return *std::max_element(first, first + size);
}

// Whether all these bytes of the stack were written before.
bool is_filled(const Region& stack, u64 offset, u64 size) {
  const auto first = stack.filled.begin() + static_cast<std::ptrdiff_t>(offset);
  return std::all_of(first, first + static_cast<std::ptrdiff_t>(size), [](u8 is) { return is != 0; });
}

}  // namespace

void Memory::add(Region region) {
  const u64 end = region.base + region.bytes.size();
  if (region.bytes.empty()) throw std::invalid_argument("region " + region.name + " is empty");
  if (end < region.base) throw std::invalid_argument("region " + region.name + " wraps around");
  for (const Region& other : regions_) {
    if (region.base < other.base + other.bytes.size() && other.base < end) {
      throw std::invalid_argument("region " + region.name + " overlaps region " + other.name);
    }
  }
  regions_.push_back(std::move(region));
}

Region* Memory::find(u64 address, u64 size) {
  if (last_ < regions_.size() && regions_[last_].contains(address, size)) return &regions_[last_];
  for (std::size_t i = 0; i < regions_.size(); i++) {
    if (regions_[i].contains(address, size)) {
      last_ = i;
      return &regions_[i];
    }
  }
  return nullptr;
}

const u8* Memory::read(u64 address, u64 size, u64 pc) {
  const Region* region = find(address, size);
  if (!region) throw_outside(address, size, Accessor::cpu_load);
  require_written(*region, address, size, Accessor::cpu_load);
  check_order(*region, address, size, pc, Accessor::cpu_load);
  const u64 offset = address - region->base;
  const bool may_be_left = region->is_stack ? !is_filled(*region, offset, size) : region->writable;
  cpu_read_data_ |= may_be_left || region->is_argument || !region->stored_rows.empty();
  return region->bytes.data() + offset;
}

u8* Memory::write(u64 address, u64 size, u64 pc) {
  Region& region = writable(address, size, Accessor::cpu_store);
  check_order(region, address, size, pc, Accessor::cpu_store);
  const u64 offset = address - region.base;
  if (region.is_stack) std::fill_n(region.filled.begin() + static_cast<std::ptrdiff_t>(offset), size, 1);
  return region.bytes.data() + offset;
}

const u8* Memory::load_row(u64 address, u64 size, u64 pc) {
  Region* region = find(address, size);
  if (!region) throw_outside(address, size, Accessor::mvin);
  require_written(*region, address, size, Accessor::mvin);
  check_order(*region, address, size, pc, Accessor::mvin);
  loads_++;
  if (region->writable) {
    if (load_pcs_.empty() || load_pcs_.back().second != pc) load_pcs_.emplace_back(loads_ - 1, pc);
    mark_rows(region->loaded_rows, *region, address, size, loads_);
    region->last_loaded = loads_;
  }
  return region->bytes.data() + (address - region->base);
}

u8* Memory::store_row(u64 address, u64 size, u64 pc) {
  Region& region = writable(address, size, Accessor::mvout);
  check_order(region, address, size, pc, Accessor::mvout);
  u8* bytes = region.bytes.data() + (address - region.base);
  if (ordering_ == Ordering::record) store_log_.add(stores_, address, bytes, size);
  stores_++;
  store_pcs_.push_back(pc);
  mark_rows(region.stored_rows, region, address, size, stores_);
  region.last_stored = stores_;
  if (conditions_) conditions_->written_by_accelerator(address, size);
  return bytes;
}

void Memory::fence() {
  fenced_stores_ = stores_;
  fenced_loads_ = loads_;
  store_pcs_.clear();
  load_pcs_.clear();
  loop_loads_.clear();
}

Region& Memory::writable(u64 address, u64 size, Accessor accessor) {
  Region* region = find(address, size);
  if (!region) throw_outside(address, size, accessor);
  if (!region->writable) {
    throw_fault(region->input ? FaultKind::input_modified : FaultKind::illegal_address,
                "%s %llu bytes at 0x%llx, in read-only %s", verb(accessor),
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(address),
                region->name.c_str());
  }
  if (!region->written.empty()) {
    std::fill_n(region->written.begin() + static_cast<std::ptrdiff_t>(address - region->base), size,
                u8{1});
  }
  return *region;
}

// A kernel whose result depends on the old contents of an output would be right by chance.
void Memory::require_written(const Region& region, u64 address, u64 size, Accessor accessor) {
  if (region.written.empty()) return;
  const auto first = region.written.begin() + static_cast<std::ptrdiff_t>(address - region.base);
  if (std::find(first, first + static_cast<std::ptrdiff_t>(size), u8{0}) ==
      first + static_cast<std::ptrdiff_t>(size)) {
    return;
  }
  throw_fault(FaultKind::uninitialised_read,
              "%s %llu bytes at 0x%llx in %s that this call has not written: the contents of an "
              "output before a call are arbitrary",
              verb(accessor), static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(address), region.name.c_str());
}

// The pairs that need an order: a move-out and any later access to the same bytes, except another
// move-out; and a move-in and a later write.
void Memory::check_order(const Region& region, u64 address, u64 size, u64 pc, Accessor accessor) {
  if (ordering_ == Ordering::ignore) return;
  OpenOrder order;
  order.address = address;
  order.bytes = size;
  order.pc = pc;
  const bool writes = accessor == Accessor::mvout || accessor == Accessor::cpu_store;
  order.kind = writes ? FaultKind::unordered_dram_write : FaultKind::unordered_dram_read;
  if (accessor != Accessor::mvout && region.last_stored > fenced_stores_) {
    const u64 newest = newest_row(region.stored_rows, region, address, size);
    if (newest > fenced_stores_) {
      order.earlier_row = newest - 1;
      order.earlier_pc = store_pcs_[newest - fenced_stores_ - 1];
      report(order, accessor, region);
    }
  }
  if (writes && region.last_loaded > fenced_loads_) {
    const u64 newest = newest_row(region.loaded_rows, region, address, size);
    if (newest > fenced_loads_) {
      order.is_behind_load = true;
      order.earlier_row = settled_load(newest - 1);
      auto begun = load_pcs_.rbegin();
      while (begun->first > newest - 1) ++begun;
      order.earlier_pc = begun->second;
      report(order, accessor, region);
    }
  }
}

void Memory::report(OpenOrder order, Accessor accessor, const Region& region) {
  char text[256];
  std::snprintf(text, sizeof text,
                "%s %llu bytes at 0x%llx in %s that an earlier %s, with no fence in between: the "
                "accelerator does not order the two",
                verb(accessor), static_cast<unsigned long long>(order.bytes),
                static_cast<unsigned long long>(order.address), region.name.c_str(),
                order.is_behind_load ? "mvin reads" : "mvout writes");
  order.message = text;
  if (ordering_ == Ordering::refuse) {
    throw Fault{order.kind, order.message, order.pc, order.earlier_pc};
  }
  open_orders_.push_back(std::move(order));
  open_orders_made_++;
}

// The row of a move-in that shows that `row` has been read: a loop's may come in any order.
u64 Memory::settled_load(u64 row) const {
  for (const auto& [first, end] : loop_loads_) {
    if (first <= row && row < end) return end - 1;
  }
  return row;
}

}  // namespace cosim
