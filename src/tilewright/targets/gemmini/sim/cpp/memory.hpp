// The simulated main memory: a few regions with permissions. No access reaches host memory
// without a bounds check.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "fault.hpp"
#include "types.hpp"

namespace cosim {

// A region of simulated memory. `input` marks a caller's read-only array: writing to it is
// reported as `input_modified` instead of `illegal_address`.
struct Region {
  u64 base = 0;
  std::vector<u8> bytes;
  bool writable = false;
  bool executable = false;
  bool input = false;
  std::string name;

  // For each byte, the number of the accelerator store that wrote it last (0: none).
  // Allocated by the first such store.
  std::vector<u32> store_numbers;
  u32 last_store = 0;

  bool contains(u64 address, u64 size) const {
    return address >= base && size <= bytes.size() && address - base <= bytes.size() - size;
  }
};

// Who accesses memory; only used in messages.
enum class Accessor { cpu_load, cpu_store, mvin, mvout };

class Memory {
 public:
  // Throws std::invalid_argument when the region is empty, wraps around or overlaps another.
  void add(Region region);

  // The region holding [address, address + size), or nullptr.
  Region* find(u64 address, u64 size);

  // Start of the bytes to read. Throws a Fault for bytes outside every region, or written by an
  // accelerator store since the last fence: the accelerator does not order the two.
  const u8* read(u64 address, u64 size, Accessor accessor);

  // Start of the bytes to write. Throws a Fault for bytes that may not be written.
  u8* write(u64 address, u64 size, Accessor accessor);

  // As `write`, for an accelerator store by the instruction at `pc`.
  u8* write_unordered(u64 address, u64 size, u64 pc);

  // Orders all accelerator stores so far before everything that follows.
  void fence();

 private:
  void check_ordered(const Region& region, u64 address, u64 size, Accessor accessor) const;

  std::vector<Region> regions_;
  std::size_t last_ = 0;           // the region found last: accesses are local
  u32 fenced_ = 0;                 // stores up to this number are ordered
  std::vector<u64> store_pcs_;     // program counters of the stores after that
};

}  // namespace cosim
