#include "memory.hpp"

#include <algorithm>
#include <stdexcept>

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

const u8* Memory::read(u64 address, u64 size, Accessor accessor) {
  Region* region = find(address, size);
  if (!region) throw_outside(address, size, accessor);
  if (region->last_store > fenced_) check_ordered(*region, address, size, accessor);
  return region->bytes.data() + (address - region->base);
}

u8* Memory::write(u64 address, u64 size, Accessor accessor) {
  Region* region = find(address, size);
  if (!region) throw_outside(address, size, accessor);
  if (!region->writable) {
    throw_fault(region->input ? FaultKind::input_modified : FaultKind::illegal_address,
                "%s %llu bytes at 0x%llx, in read-only %s", verb(accessor),
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(address),
                region->name.c_str());
  }
  return region->bytes.data() + (address - region->base);
}

u8* Memory::write_unordered(u64 address, u64 size, u64 pc) {
  u8* bytes = write(address, size, Accessor::mvout);
  Region& region = *find(address, size);
  if (region.store_numbers.empty()) region.store_numbers.resize(region.bytes.size(), 0);
  if (store_pcs_.empty() || store_pcs_.back() != pc) store_pcs_.push_back(pc);
  const u32 number = fenced_ + static_cast<u32>(store_pcs_.size());
  region.last_store = number;
  std::fill_n(region.store_numbers.begin() + static_cast<std::ptrdiff_t>(address - region.base),
              size, number);
  return bytes;
}

void Memory::fence() {
  fenced_ += static_cast<u32>(store_pcs_.size());
  store_pcs_.clear();
}

void Memory::check_ordered(const Region& region, u64 address, u64 size, Accessor accessor) const {
  const u32* numbers = region.store_numbers.data() + (address - region.base);
  const u32 newest = *std::max_element(numbers, numbers + size);
  if (newest <= fenced_) return;
  Fault fault{FaultKind::unordered_dram_read, ""};
  char text[256];
  std::snprintf(text, sizeof text,
                "%s %llu bytes at 0x%llx in %s that an earlier mvout wrote, with no fence in "
                "between: the accelerator does not order the two",
                verb(accessor), static_cast<unsigned long long>(size),
                static_cast<unsigned long long>(address), region.name.c_str());
  fault.message = text;
  fault.second_pc = store_pcs_[newest - fenced_ - 1];
  throw fault;
}

}  // namespace cosim
