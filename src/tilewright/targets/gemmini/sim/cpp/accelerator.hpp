// What Gemmini computes: every command executed at once, in program order, with checks that the
// hardware does not make. Timing is elsewhere.
#pragma once

#include <memory>
#include <vector>

#include "command.hpp"
#include "config.hpp"
#include "datapath.hpp"
#include "loop_registers.hpp"
#include "memory.hpp"
#include "types.hpp"

namespace cosim {

class Accelerator {
 public:
  // `checks_written` refuses reads of local rows that were never written.
  Accelerator(const Config& config, Memory& memory, bool checks_written);

  // Executes one command of the instruction at `pc`. Throws a Fault for a command that the
  // hardware cannot carry out, or that reads local rows which were never written.
  void execute(u8 funct, u64 rs1, u64 rs2, u64 pc);

  // Multiply-accumulates on operands that exist (not on padding).
  u64 macs() const { return macs_; }
  u64 scratchpad_rows_touched() const { return scratchpad_touched_; }
  u64 accumulator_rows_touched() const { return accumulator_touched_; }

 private:
  // Which dataflow's operand the array holds.
  enum class Held : u8 { nothing, weights, sums };

  // Where a tile's rows lie: `rows` rows, `stride` apart, from `first`.
  struct Rows {
    bool in_accumulator;
    u32 first;
    u32 stride;
    int rows;
  };

  void run_loop(u8 funct, u64 rs1, u64 rs2, u64 pc);
  void configure(u64 rs1, u64 rs2);
  void move_in(u8 funct, u64 rs1, u64 rs2, u64 pc);
  void move_out(u64 rs1, u64 rs2, u64 pc);
  void preload(u64 rs1, u64 rs2);
  void compute(u8 funct, u64 rs1, u64 rs2);
  void compute_weight_stationary(bool keeps, Product& product, const Tile& d);
  void compute_output_stationary(bool keeps, Product& product, const Tile& b);
  void check_result();
  void check_held(bool keeps, Held wanted);

  // The checked block of an operand; one that does not exist for `NONE`.
  Block operand(const char* what, const Tile& tile, bool transposed, u32 stride);
  void check_move(const char* what, const Tile& tile) const;
  void check_bounds(const char* what, const Rows& rows) const;
  void check_written(const char* what, const Rows& rows) const;
  void check_tile(const char* what, const Tile& tile) const;
  void mark_written(bool in_accumulator, u32 row);

  const Config config_;
  const int dim_;
  Memory& memory_;
  const bool checks_written_;
  std::unique_ptr<Datapath> datapath_;
  std::vector<u8> scratchpad_written_;
  std::vector<u8> accumulator_written_;

  LoadConfig load_configs_[3];
  StoreConfig store_config_;
  ExecuteConfig execute_config_;
  LoopRegisters loop_registers_;

  Held held_ = Held::nothing;
  Tile preloaded_;        // the first operand of the last preload
  Tile result_;
  u32 result_stride_ = 0;  // with which the second was checked
  bool is_preloaded_ = false;
  bool has_unwritten_result_ = false;  // output-stationary: leaves the array with the next product
  int weight_rows_ = 0;
  int weight_cols_ = 0;

  u64 macs_ = 0;
  u64 scratchpad_touched_ = 0;
  u64 accumulator_touched_ = 0;
};

}  // namespace cosim
