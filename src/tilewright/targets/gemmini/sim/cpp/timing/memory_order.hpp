// Sees whether an access that no fence orders overtakes the earlier one in the modelled time.
#pragma once

#include <string>
#include <vector>

#include "../memory.hpp"

namespace cosim {

class MemoryOrder {
 public:
  explicit MemoryOrder(Memory& memory) : memory_(memory) {}

  // The CPU sends the accelerator command number `sequence`, or accesses memory itself, with the
  // next `count` open orders of the program.
  void send(u64 count, u64 sequence);
  void access(u64 count);
  // Leaves out open orders of a part that is not timed.
  void skip(u64 count);

  // The accelerator's DMA sends a read or write of a command to memory. Throws a Fault when the
  // earlier access has not been sent.
  void read(u64 sequence, u64 address, u64 bytes);
  void write(u64 sequence, u64 address, u64 bytes);
  // All of a DRAM row, or of several equal ones, is on its way.
  void row_read(u64 rows) { rows_read_ += rows; }
  void row_written() { rows_written_++; }

  // Accesses that were not raced, by pair of instructions, in the order in which they were met.
  const std::vector<UnorderedPair>& unordered() const { return unordered_; }

 private:
  struct Watch {
    u64 sequence = 0;
    OpenOrder order;
  };

  OpenOrder next();
  void meet(FaultKind kind, u64 sequence, u64 address, u64 bytes);
  void require_landed(const OpenOrder& order) const;
  std::string stale_data(const OpenOrder& order) const;
  void count(const OpenOrder& order);

  Memory& memory_;
  std::vector<Watch> watches_;  // few: of commands on their way
  std::vector<UnorderedPair> unordered_;
  u64 rows_read_ = 0;
  u64 rows_written_ = 0;
};

}  // namespace cosim
