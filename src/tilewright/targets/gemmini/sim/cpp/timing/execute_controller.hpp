// Feeds the array: pairs a compute with the preload after it, reads their operands from the
// scratchpad row by row, and loses cycles where two want the same bank.
#pragma once

#include "../config.hpp"
#include "breakdown.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "fifo.hpp"
#include "mesh.hpp"
#include "ports.hpp"
#include "timed_command.hpp"

namespace cosim {

class ExecuteController {
 public:
  ExecuteController(const Config& config, Clock& clock, Ports& ports,
                    Fifo<IssuedCommand>& commands, Mesh& mesh, Completions& completions,
                    Breakdown& breakdown);

  // True if the array was used, or drained, in this cycle; otherwise it was idle.
  bool tick();

  void add_wakeups(Wakeup& wakeup) const;

 private:
  enum class Pass { none, preload, compute, both };  // both: a compute and the next preload

  // One stream of rows into the array.
  struct Operand {
    bool is_none = true;
    bool in_accumulator = false;
    bool has_started = false;
    int row = 0;    // to read next
    int rows = 0;   // that exist; the others are padding and need no read
    bool at(const Operand& other) const {
      return has_started == other.has_started && row == other.row;
    }
    bool is_one_ahead(const Operand& other, int total) const {
      return has_started && row == (other.row + 1) % total;
    }
    int fed(int total) const { return has_started ? (row == 0 ? total : row) : 0; }
  };

  // A preload whose compute has not been fed yet.
  bool is_at(std::size_t index) const {
    return commands_.size() > index && commands_[index].ready <= clock_.now;
  }
  u8 funct(std::size_t index) const { return commands_[index].command.funct; }

  Pass choose_pass() const;
  bool has_hazard(std::size_t preload) const;
  bool is_being_written(LocalAddress address) const;
  void start_pass(Pass pass);
  bool configure();
  void feed_rows();
  void finish_pass();
  u32 bank(const Operand& operand, u32 row) const;

  const Config config_;
  Clock& clock_;
  Ports& ports_;
  Fifo<IssuedCommand>& commands_;
  Mesh& mesh_;
  Completions& completions_;
  Breakdown& breakdown_;

  ExecuteConfig execute_config_;
  Pass pass_ = Pass::none;
  bool is_draining_ = false;
  Cycle drained_ = 0;
  u64 drain_pc_ = 0;

  Operand a_;
  Operand bias_;
  Operand weights_;
  u32 a_row_ = 0;  // first local row of each operand
  u32 bias_row_ = 0;
  u32 weights_row_ = 0;
  int total_rows_ = 0;
  int result_row_ = 0;
  u64 pass_pc_ = 0;
  Fifo<ResultTile> preloaded_;  // results of preloads whose computes are not fed yet
};

}  // namespace cosim
