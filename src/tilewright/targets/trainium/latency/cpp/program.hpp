// What the scheduler is given: instructions with their costs, and what they read and write.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace schedule {

enum Engine : int { kPe, kVector, kScalar, kGpsimd, kDma, kEngines };

struct Rules {
  double semaphore_ns;      // from a result to the start of its reader on another engine
  double result_ns[kEngines];  // the same on one engine
  double start_ns[kEngines];   // of each instruction, before it accesses memory
  double dma_fixed_ns;      // from the start of a transfer to its completion, beside its jobs
  int dma_engines;
  int window;               // instructions that one may be moved ahead of the oldest not started
  bool psum_port_shared;    // DVE and ACT exclude each other on PSUM
  bool vector_port_shared;  // DVE and Pool exclude each other on SBUF
};

struct Access {
  int32_t tensor;
  uint8_t kind;      // kRead, kWrite or both (accumulation)
  uint8_t quarters;  // bit q: touches partitions 32 q to 32 q + 31
  int64_t low, high; // bytes of a partition
};
inline constexpr uint8_t kRead = 1, kWrite = 2;

struct Instruction {
  std::array<double, kDma> cost_ns;  // on each engine but DMA; negative: cannot run there
  double job_ns;                     // of each DMA job; a transfer has `jobs`
  int jobs;                          // 0: not a transfer
  bool psum, sbuf;                   // which memories it accesses, for shared ports
  int first_access, last_access;     // half-open range
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Access> accesses;
  // The tensor whose buffer a tensor takes over, or -1.
  std::vector<int32_t> previous;
};

enum Wait : uint8_t { kNothing, kData, kBuffer, kEngineBusy, kPort };

struct Placed {
  int engine;
  double start_ns, end_ns;
  int blocker;  // the instruction waited for last, or -1
  Wait wait;    // why
};

std::vector<Placed> run(const Program& program, const Rules& rules);

}  // namespace schedule
