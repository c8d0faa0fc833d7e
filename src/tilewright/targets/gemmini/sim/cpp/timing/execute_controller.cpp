#include "execute_controller.hpp"

#include <algorithm>

namespace cosim {

ExecuteController::ExecuteController(const Config& config, Clock& clock, Ports& ports,
                                     Fifo<IssuedCommand>& commands, Mesh& mesh,
                                     Completions& completions, Breakdown& breakdown)
    : config_(config),
      clock_(clock),
      ports_(ports),
      commands_(commands),
      mesh_(mesh),
      completions_(completions),
      breakdown_(breakdown) {}

bool ExecuteController::tick() {
  if (is_draining_) {
    if (clock_.now < drained_) {
      breakdown_.add(Cause::drain, drain_pc_);
      return true;
    }
    is_draining_ = false;
    clock_.changed = true;
  }
  if (pass_ == Pass::none && is_at(0)) {
    if (funct(0) == kConfig) return configure();
    start_pass(choose_pass());
  }
  if (pass_ == Pass::none) return false;
  clock_.changed = true;
  feed_rows();
  return true;
}

// A new configuration waits until no product is under way.
bool ExecuteController::configure() {
  const IssuedCommand& issued = commands_.front();
  if (mesh_.products_in_flight() == 0 && preloaded_.empty()) {
    if (completions_.has_fed()) return false;
    execute_config_ =
        merge_execute_config(issued.command.rs1, issued.command.rs2, execute_config_);
    completions_.push_product(issued.slot);
    commands_.pop();
    clock_.changed = true;
    return false;
  }
  drained_ = clock_.now + static_cast<Cycle>(config_.array_drain_cycles);
  drain_pc_ = issued.command.pc;
  for (; !preloaded_.empty(); preloaded_.pop()) {
    const int slot = preloaded_.front().slot;
    if (slot >= 0) completions_.push_product(slot);
  }
  is_draining_ = true;
  clock_.changed = true;
  breakdown_.add(Cause::drain, drain_pc_);
  return true;
}

// A compute shares its pass with the next preload only when the compute after that is there too:
// the controller looks three commands ahead for hazards.
ExecuteController::Pass ExecuteController::choose_pass() const {
  if (funct(0) == kPreload) return is_at(1) && !has_hazard(0) ? Pass::preload : Pass::none;
  const bool preload_follows = is_at(1) && funct(1) == kPreload;
  return preload_follows && is_at(2) && !has_hazard(1) ? Pass::both : Pass::compute;
}

// Whether the preload at this place, or the compute after it, reads a result still under way.
bool ExecuteController::has_hazard(std::size_t preload) const {
  const TimedCommand& compute = commands_[preload + 1].command;
  return is_being_written(commands_[preload].command.first.address) ||
         is_being_written(compute.first.address) || is_being_written(compute.second.address);
}

// Only the first rows of two tiles are compared.
bool ExecuteController::is_being_written(LocalAddress address) const {
  if (address.is_none()) return false;
  for (std::size_t i = 0; i < preloaded_.size(); i++) {
    if (preloaded_[i].address.is_same_row(address)) return true;
  }
  return mesh_.writes_to(address);
}

void ExecuteController::start_pass(Pass pass) {
  pass_ = pass;
  if (pass == Pass::none) return;
  a_ = bias_ = weights_ = {};
  result_row_ = 0;
  pass_pc_ = commands_.front().command.pc;
  if (pass != Pass::preload) {
    const TimedCommand& compute = commands_[0].command;
    a_.is_none = compute.first.address.is_none();
    a_.in_accumulator = compute.first.address.in_accumulator();
    a_.rows = execute_config_.a_transposed ? compute.first.cols : compute.first.rows;
    a_row_ = compute.first.address.row();
    bias_.is_none = compute.second.address.is_none();
    bias_.in_accumulator = compute.second.address.in_accumulator();
    bias_.rows = compute.second.rows;
    bias_row_ = compute.second.address.row();
  }
  if (pass != Pass::compute) {
    const TimedCommand& preload = commands_[pass == Pass::preload ? 0 : 1].command;
    weights_.is_none = preload.first.address.is_none();
    weights_.in_accumulator = preload.first.address.in_accumulator();
    weights_.rows = execute_config_.b_transposed ? preload.first.cols : preload.first.rows;
    weights_row_ = preload.first.address.row();
  }
  total_rows_ = config_.array_dim;
  const bool is_transposing = execute_config_.a_transposed || execute_config_.b_transposed;
  if (weights_.is_none && !is_transposing) {
    total_rows_ = std::max({a_.is_none ? 1 : a_.rows, bias_.is_none ? 1 : bias_.rows,
                            config_.array_minimum_rows});
  }
}

u32 ExecuteController::bank(const Operand& operand, u32 row) const {
  return operand.in_accumulator ? 0 : ports_.scratchpad.bit(row);
}

// One cycle: each operand reads its next row unless it must wait for another operand's row, for
// its bank, or for a load that writes the bank. A goes first, then the bias, then the weights.
void ExecuteController::feed_rows() {
  const int last_row = config_.array_dim - 1;
  const int weights_row = last_row - weights_.row;  // weights enter from the last row
  const u32 a_bank = bank(a_, a_row_ + static_cast<u32>(a_.row) * execute_config_.a_stride);
  const u32 bias_bank = bank(bias_, bias_row_ + static_cast<u32>(bias_.row));
  const u32 weights_bank = bank(weights_, weights_row_ + static_cast<u32>(weights_row));
  const auto share_bank = [](const Operand& x, u32 x_bank, const Operand& y, u32 y_bank) {
    return !x.is_none && !y.is_none && x_bank == y_bank && x.at(y);
  };
  const int total = total_rows_;
  const bool a_waits = a_.is_one_ahead(bias_, total) || a_.is_one_ahead(weights_, total);
  const bool bias_conflicts = share_bank(bias_, bias_bank, a_, a_bank);
  const bool bias_waits =
      bias_conflicts || bias_.is_one_ahead(a_, total) || bias_.is_one_ahead(weights_, total);
  const bool weights_conflict = share_bank(weights_, weights_bank, a_, a_bank) ||
                                share_bank(weights_, weights_bank, bias_, bias_bank);
  const bool weights_wait =
      weights_conflict || weights_.is_one_ahead(a_, total) || weights_.is_one_ahead(bias_, total);

  const u32 written = ports_.scratchpad_writes;
  const bool a_stolen = !a_.is_none && a_.row < a_.rows && (written & a_bank);
  const bool bias_stolen = !bias_.is_none && bias_.row < bias_.rows && (written & bias_bank);
  const bool weights_stolen =
      !weights_.is_none && weights_row < weights_.rows && (written & weights_bank);
  const bool loses_to_write = (!a_waits && a_stolen) || (!bias_waits && bias_stolen) ||
                              (!weights_wait && weights_stolen);
  if (loses_to_write) {
    const bool is_a = !a_waits && a_stolen;
    const bool is_bias = !is_a && !bias_waits && bias_stolen;
    breakdown_.add_at_bank(
        Cause::write_steal,
        is_a ? BankUsers::load_and_a : is_bias ? BankUsers::load_and_d : BankUsers::load_and_b,
        is_a ? a_bank : is_bias ? bias_bank : weights_bank, pass_pc_);
  } else if (bias_conflicts || weights_conflict) {
    const bool with_a = share_bank(weights_, weights_bank, a_, a_bank);
    breakdown_.add_at_bank(
        Cause::bank_conflict,
        bias_conflicts ? BankUsers::a_and_d : with_a ? BankUsers::a_and_b : BankUsers::b_and_d,
        bias_conflicts ? bias_bank : weights_bank, pass_pc_);
  } else {
    breakdown_.add(Cause::array_busy, pass_pc_);
  }

  const auto advance = [total](Operand& operand, bool moves) {
    if (!moves) return;
    operand.row = (operand.row + 1) % total;
    operand.has_started = true;
  };
  advance(a_, !a_waits && !a_stolen);
  advance(bias_, !bias_waits && !bias_stolen);
  advance(weights_, !weights_wait && !weights_stolen);
  const int fed = std::min({a_.fed(total), bias_.fed(total), weights_.fed(total)});
  if (pass_ != Pass::preload && !preloaded_.empty()) {
    for (; result_row_ < fed; result_row_++) {
      mesh_.feed(preloaded_.front(), result_row_, execute_config_.c_stride,
                 result_row_ == total - 1);
    }
  }
  if (fed == total) finish_pass();
}

void ExecuteController::finish_pass() {
  if (pass_ != Pass::preload) {
    if (!preloaded_.empty()) preloaded_.pop();
    completions_.push_fed(commands_.front().slot);
  }
  if (pass_ != Pass::compute) {
    const IssuedCommand& preload = commands_[pass_ == Pass::preload ? 0 : 1];
    ResultTile tile{preload.command.second.address, preload.command.second.rows, preload.slot};
    if (tile.address.is_none()) {
      completions_.push_fed(tile.slot);
      tile.slot = -1;
    }
    preloaded_.push(tile);
  }
  commands_.pop();
  if (pass_ == Pass::both) commands_.pop();
  pass_ = Pass::none;
}

void ExecuteController::add_wakeups(Wakeup& wakeup) const {
  if (is_draining_) wakeup.at(drained_);
}

}  // namespace cosim
