// The simulated main memory: a few regions with permissions. No access reaches host memory
// without a bounds check.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fault.hpp"
#include "order.hpp"
#include "types.hpp"

namespace cosim {

class Conditions;

// A region of simulated memory. `input` marks a caller's read-only array: writing to it is
// reported as `input_modified` instead of `illegal_address`.
struct Region {
  u64 base = 0;
  std::vector<u8> bytes;
  bool writable = false;
  bool executable = false;
  bool input = false;
  bool is_argument = false;
  bool is_stack = false;
  std::string name;

  // For each byte, whether this call has written it. Empty for a region whose contents a kernel may
  // read before.
  std::vector<u8> written;

  // For each byte of the stack, whether it was written since the program began.
  std::vector<u8> filled;

  // For each byte, 1 + the number of the row moved out to it, and in from it, last (0: none).
  // Allocated by the first such move.
  std::vector<u32> stored_rows;
  std::vector<u32> loaded_rows;
  u64 last_stored = 0;
  u64 last_loaded = 0;

  bool contains(u64 address, u64 size) const {
    return address >= base && size <= bytes.size() && address - base <= bytes.size() - size;
  }
};

// Who accesses memory; only used in messages.
enum class Accessor { cpu_load, cpu_store, mvin, mvout };

class Memory {
 public:
  explicit Memory(Ordering ordering) : ordering_(ordering) {}

  // Throws std::invalid_argument when the region is empty, wraps around or overlaps another.
  void add(Region region);

  // The region holding [address, address + size), or nullptr.
  Region* find(u64 address, u64 size);

  // Start of the bytes that the CPU reads or writes. Throws a Fault for bytes outside every region,
  // and for those that may not be written.
  const u8* read(u64 address, u64 size, u64 pc);
  u8* write(u64 address, u64 size, u64 pc);

  // The same for a row that the accelerator moves in or out, by the instruction at `pc`.
  const u8* load_row(u64 address, u64 size, u64 pc);
  u8* store_row(u64 address, u64 size, u64 pc);

  // The accelerator may move the rows in between in any order among themselves.
  void begin_loop_loads() { loop_loads_.push_back({loads_, loads_}); }
  void end_loop_loads() { loop_loads_.back().second = loads_; }

  // Orders all accelerator moves so far before everything that follows.
  void fence();

  // Accesses that nothing orders after an earlier one, as they were made; taken by the timing model.
  std::deque<OpenOrder>& open_orders() { return open_orders_; }
  u64 open_orders_made() const { return open_orders_made_; }
  const StoreLog& store_log() const { return store_log_; }

  // Whether the CPU has read an argument, a static variable, memory that the accelerator wrote, or a
  // byte of the stack that was not written before. An earlier call may have left values in the
  // second and the last one.
  bool cpu_read_data() const { return cpu_read_data_; }

  // Is told what the accelerator writes.
  void set_conditions(Conditions* conditions) { conditions_ = conditions; }

 private:
  Region& writable(u64 address, u64 size, Accessor accessor);
  void require_written(const Region& region, u64 address, u64 size, Accessor accessor);
  void check_order(const Region& region, u64 address, u64 size, u64 pc, Accessor accessor);
  void report(OpenOrder order, Accessor accessor, const Region& region);
  u64 settled_load(u64 row) const;

  const Ordering ordering_;
  std::vector<Region> regions_;
  std::size_t last_ = 0;              // the region found last: accesses are local
  u64 stores_ = 0;                    // rows moved out so far
  u64 loads_ = 0;                     // and in
  u64 fenced_stores_ = 0;             // those before the last fence
  u64 fenced_loads_ = 0;
  std::vector<u64> store_pcs_;        // of rows moved out after the last fence
  std::deque<std::pair<u64, u64>> load_pcs_;    // first row and instruction, of those moved in
  std::deque<std::pair<u64, u64>> loop_loads_;  // rows of hardware loops: first, end
  std::deque<OpenOrder> open_orders_;
  u64 open_orders_made_ = 0;
  StoreLog store_log_;
  bool cpu_read_data_ = false;
  Conditions* conditions_ = nullptr;
};

}  // namespace cosim
