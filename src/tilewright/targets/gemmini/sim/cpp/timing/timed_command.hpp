// A command on its way through the accelerator, with its fields unpacked once.
#pragma once

#include "../command.hpp"
#include "../types.hpp"

namespace cosim {

struct TimedCommand {
  u8 funct = 0;
  u64 rs1 = 0;
  u64 rs2 = 0;
  u64 pc = 0;
  u64 sequence = 0;  // of the CPU's command, which a loop's commands share
  Tile first;   // rs1 of preload and compute
  Tile second;  // rs2 of everything but config

  TimedCommand() = default;
  TimedCommand(u8 f, u64 r1, u64 r2, u64 p)
      : funct(f), rs1(r1), rs2(r2), pc(p), first(unpack_tile(r1)), second(unpack_tile(r2)) {}
};

// A command that the reservation station issued: its slot there, and when the controller sees it.
struct IssuedCommand {
  TimedCommand command;
  int slot = 0;
  Cycle ready = 0;
};

}  // namespace cosim
