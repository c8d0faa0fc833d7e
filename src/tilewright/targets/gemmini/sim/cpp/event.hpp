// What the program does that the timing model needs to know, in program order.
#pragma once

#include "types.hpp"

namespace cosim {

enum class EventKind : u8 {
  command,  // an accelerator command: funct, rs1, rs2
  fence,    // waits until the accelerator is idle
  load,     // a CPU load from rs1
  store,    // a CPU store to rs1
  fetch,    // an instruction fetch from rs1 that misses the CPU's cache
  mark,     // the program read its cycle counter
  end,      // the program ended
};

struct Event {
  EventKind kind = EventKind::end;
  u8 funct = 0;
  u32 cpu_cycles = 0;  // CPU cycles since the previous event, without waiting for memory
  u64 rs1 = 0;
  u64 rs2 = 0;
  u64 pc = 0;
  u32 open_orders = 0;  // DRAM accesses of this event that nothing orders after an earlier one
};

}  // namespace cosim
