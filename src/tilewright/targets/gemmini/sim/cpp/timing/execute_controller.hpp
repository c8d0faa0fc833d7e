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
  // both: a compute and the next preload; flush: results leave the array for want of other rows
  enum class Pass { none, preload, compute, both, flush };

  // One stream of rows into the array.
  struct Operand {
    bool is_none = true;
    bool in_accumulator = false;
    int fed = 0;    // rows so far, at most one more than of any other operand
    int rows = 0;   // that exist; the others are padding and need no read
    bool is_one_ahead(const Operand& other) const { return fed == other.fed + 1; }
    // The row to read next; the first when there is none.
    int row(int total) const { return fed == total ? 0 : fed; }
  };

  // A preload whose compute has not been fed yet.
  bool is_at(std::size_t index) const {
    return commands_.size() > index && commands_[index].ready <= clock_.now;
  }
  u8 funct(std::size_t index) const { return commands_[index].command.funct; }

  bool is_output_stationary() const { return !execute_config_.weight_stationary; }
  Pass choose_pass() const;
  bool has_hazard(std::size_t preload) const;
  bool is_being_written(LocalAddress address) const;
  bool has_results_in_array() const;
  void start_pass(Pass pass);
  void read_preload(const TimedCommand& preload);
  void read_compute(const TimedCommand* a, const TimedCommand* second);
  bool configure();
  void apply_configuration();
  void feed_rows();
  bool feed_unhindered();
  void count_busy();
  void feed_each();
  void feed_result_rows(int fed);
  void finish_pass();
  u32 bank(const Operand& operand, u32 row) const;
  bool is_taken(const Operand& operand, int row, u32 local_row, u32 bank) const;

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
  Operand second_;     // of the compute: D, or output-stationary B
  Operand preloaded_;  // of the preload: B, or output-stationary D
  u32 a_row_ = 0;  // first local row of each operand
  u32 second_row_ = 0;
  u32 preloaded_row_ = 0;
  int total_rows_ = 0;
  int result_row_ = 0;
  u64 pass_pc_ = 0;
  // Results of preloads that no row has left the array for yet. Weight-stationary, they leave
  // with the rows of their computes; output-stationary, with those of the pass after that, and
  // every pass adds one here, if only an empty one.
  Fifo<ResultTile> results_;
  Cycle flush_begins_ = 0;
};

}  // namespace cosim
