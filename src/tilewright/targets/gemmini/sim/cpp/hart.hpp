// The RV64IMFDC processor: runs the program a batch at a time and, when asked, reports what the
// timing model needs to know.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "accelerator.hpp"
#include "conditions.hpp"
#include "event.hpp"
#include "float_unit.hpp"
#include "instruction.hpp"
#include "memory.hpp"
#include "pipeline.hpp"

namespace cosim {

enum class HartStatus { running, finished, instruction_limit, time_limit };

struct HartLimits {
  u64 instructions = ~0ull;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

class Hart {
 public:
  // A write to `finish_address` ends the program, as does a return to `kReturnAddress`.
  // Control and status registers other than the floating-point ones exist only when
  // `is_machine` (a bare-metal program).
  struct Start {
    u64 pc = 0;
    u64 stack_pointer = 0;
    bool is_machine = false;
    std::optional<u64> finish_address;
  };

  static constexpr u64 kReturnAddress = 0xfffffffffffff000ull;

  // `pipeline` is null when only results matter; then there are no events. `conditions` is null
  // unless conditions are recorded.
  Hart(Memory& memory, Accelerator& accelerator, Pipeline* pipeline, Conditions* conditions,
       const Start& start, const HartLimits& limits);

  void set_argument(int index, u64 value) { x_[10 + index] = value; }

  // Appends events to `events` until there are `event_count`, the program ends or a limit is
  // reached. The last event of a finished program is `EventKind::end`. Throws a Fault with its
  // program counter.
  HartStatus run(std::vector<Event>& events, std::size_t event_count);

  u64 instructions() const { return instructions_; }
  u64 pc() const { return pc_; }

  // How often each instruction ran, by address; empty without a pipeline.
  std::vector<std::pair<u64, u64>> executed() const;
  u64 computes() const { return computes_; }

 private:
  // The executable region the program runs in, decoded as far as it ran.
  struct Code {
    u64 base = 0;
    u64 size = 0;
    const u8* bytes = nullptr;
    std::vector<Instruction> instructions;  // one for every two bytes
    std::vector<u64> executed;              // how often each ran, since it was entered
  };

  const Instruction& fetch();
  void enter_code();
  void add_executed(std::map<u64, u64>& to) const;
  void execute(const Instruction& in);
  void execute_register_op(const Instruction& in);
  void execute_multiply(const Instruction& in);
  void execute_csr(const Instruction& in);
  u64 read_csr(u32 number);
  void write_csr(u32 number, u64 value);
  void account(const Instruction& in, const Execution& execution, std::vector<Event>& events);
  void write_x(u8 index, u64 value) {
    if (index != 0) x_[index] = value;
  }
  void branch_if(bool condition, const Instruction& in) {
    if (condition) next_pc_ = pc_ + static_cast<u64>(static_cast<i64>(in.imm));
  }
  template <typename T>
  T load(u64 address);
  template <typename T>
  void store(u64 address, T value);

  Memory& memory_;
  Accelerator& accelerator_;
  Pipeline* pipeline_;
  Conditions* conditions_;
  const Start start_;
  const HartLimits limits_;

  u64 pc_;
  u64 next_pc_ = 0;
  u64 x_[32] = {};
  FloatState float_;
  u64 instructions_ = 0;
  HartStatus status_ = HartStatus::running;
  bool read_cycle_counter_ = false;  // by the instruction being executed
  Code code_;
  std::map<u64, u64> executed_;  // by address, in code that was left
  u64 computes_ = 0;
  u32 cycles_since_event_ = 0;
  u64 open_orders_reported_ = 0;
};

}  // namespace cosim
