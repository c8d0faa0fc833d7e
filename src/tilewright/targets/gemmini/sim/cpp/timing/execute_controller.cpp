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
    if (clock_.now < drained_ || !mesh_.is_empty()) {
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
  if (pass_ == Pass::none && is_output_stationary() && has_results_in_array()) {
    start_pass(Pass::flush);
  }
  if (pass_ == Pass::none) return false;
  clock_.changed = true;
  if (pass_ == Pass::flush && clock_.now < flush_begins_) {
    breakdown_.add(Cause::drain, pass_pc_);
  } else {
    feed_rows();
  }
  return true;
}

// A new configuration waits until no product is under way.
bool ExecuteController::configure() {
  const IssuedCommand& issued = commands_.front();
  if (is_output_stationary()) {
    if (has_results_in_array()) {
      start_pass(Pass::flush);
      clock_.changed = true;
      breakdown_.add(Cause::drain, issued.command.pc);
      return true;
    }
    results_ = {};
    apply_configuration();
    return false;
  }
  if (mesh_.is_empty() && results_.empty()) {
    apply_configuration();
    return false;
  }
  drained_ = clock_.now + static_cast<Cycle>(config_.array_drain_cycles);
  drain_pc_ = issued.command.pc;
  for (; !results_.empty(); results_.pop()) {
    const int slot = results_.front().slot;
    if (slot >= 0) completions_.push_product(slot);
  }
  is_draining_ = true;
  clock_.changed = true;
  breakdown_.add(Cause::drain, drain_pc_);
  return true;
}

void ExecuteController::apply_configuration() {
  if (completions_.has_fed()) return;
  const IssuedCommand& issued = commands_.front();
  execute_config_ = merge_execute_config(issued.command.rs1, issued.command.rs2, execute_config_);
  completions_.push_product(issued.slot);
  commands_.pop();
  clock_.changed = true;
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
  for (std::size_t i = 0; i < results_.size(); i++) {
    if (results_[i].address.is_same_row(address)) return true;
  }
  return mesh_.writes_to(address);
}

bool ExecuteController::has_results_in_array() const {
  for (std::size_t i = 0; i < results_.size(); i++) {
    if (results_[i].slot >= 0) return true;
  }
  return !mesh_.is_empty();
}

// An operand that needs the transposer goes through it in the pass before the one it is used in.
void ExecuteController::start_pass(Pass pass) {
  pass_ = pass;
  if (pass == Pass::none) return;
  a_ = second_ = preloaded_ = {};
  result_row_ = 0;
  total_rows_ = config_.array_dim;
  if (pass == Pass::flush) {
    flush_begins_ = clock_.now + static_cast<Cycle>(config_.array_flush_cycles);
    return;
  }
  pass_pc_ = commands_.front().command.pc;
  const TimedCommand* here = pass == Pass::preload ? nullptr : &commands_[0].command;
  const TimedCommand* next = pass == Pass::preload ? &commands_[1].command
                             : pass == Pass::both  ? &commands_[2].command
                                                   : nullptr;
  const bool transposes_b = is_output_stationary() && execute_config_.b_transposed;
  read_compute(execute_config_.transposes_a() ? next : here, transposes_b ? next : here);
  if (pass != Pass::compute) {
    read_preload(commands_[pass == Pass::preload ? 0 : 1].command);
  }
  // The rows of a product, which are all that the pass takes where no block is preloaded in it.
  int rows = config_.array_dim;
  if (!is_output_stationary() && execute_config_.transposed_operands() == 0) {
    rows = std::max({a_.is_none ? 1 : a_.rows, second_.is_none ? 1 : second_.rows,
                     config_.array_minimum_rows});
    if (preloaded_.is_none) total_rows_ = rows;
  }
  if (pass != Pass::preload) {
    breakdown_.count(Cause::product_rows, pass_pc_, static_cast<u64>(rows));
  }
}

// Null for an operand that this pass does not read.
void ExecuteController::read_compute(const TimedCommand* a, const TimedCommand* second) {
  if (a) {
    a_.is_none = a->first.address.is_none();
    a_.in_accumulator = a->first.address.in_accumulator();
    a_.rows = execute_config_.a_transposed ? a->first.cols : a->first.rows;
    a_row_ = a->first.address.row();
  }
  if (second) {
    const bool transposed = is_output_stationary() && execute_config_.b_transposed;
    second_.is_none = second->second.address.is_none();
    second_.in_accumulator = second->second.address.in_accumulator();
    second_.rows = transposed ? second->second.cols : second->second.rows;
    second_row_ = second->second.address.row();
  }
}

void ExecuteController::read_preload(const TimedCommand& preload) {
  const bool transposed = !is_output_stationary() && execute_config_.b_transposed;
  preloaded_.is_none = preload.first.address.is_none();
  preloaded_.in_accumulator = preload.first.address.in_accumulator();
  preloaded_.rows = transposed ? preload.first.cols : preload.first.rows;
  preloaded_row_ = preload.first.address.row();
}

u32 ExecuteController::bank(const Operand& operand, u32 row) const {
  return operand.in_accumulator ? 0 : ports_.scratchpad.bit(row);
}

// Whether a write has the bank of an operand's row in this cycle: a load that of the scratchpad, a
// sum that is added to that of the accumulator. Padding is not read.
bool ExecuteController::is_taken(const Operand& operand, int row, u32 local_row, u32 bank) const {
  if (operand.is_none || row >= operand.rows) return false;
  if (operand.in_accumulator) {
    return ports_.accumulator_adds & ports_.accumulator.bit(local_row);
  }
  return ports_.scratchpad_writes & bank;
}

// One cycle of a pass.
void ExecuteController::feed_rows() {
  if (!feed_unhindered()) feed_each();
  const int fed = std::min({a_.fed, second_.fed, preloaded_.fed});
  feed_result_rows(fed);
  if (fed == total_rows_) finish_pass();
}

// The usual cycle: all operands are at the same row, in banks of their own that nothing writes.
// False, and nothing done, in any other.
bool ExecuteController::feed_unhindered() {
  if (a_.fed != second_.fed || a_.fed != preloaded_.fed || pass_ == Pass::flush) return false;
  const u32 row = static_cast<u32>(a_.fed);
  const u32 preloaded_row = static_cast<u32>(config_.array_dim - 1) - row;
  u32 banks = ports_.scratchpad_writes;
  const auto takes_bank = [&](const Operand& operand, u32 local_row) {
    if (operand.is_none) return true;
    const u32 bank = ports_.scratchpad.bit(local_row);
    if (operand.in_accumulator || (banks & bank) != 0) return false;
    banks |= bank;
    return true;
  };
  if (!takes_bank(a_, a_row_ + row * execute_config_.a_stride) ||
      !takes_bank(second_, second_row_ + row) ||
      !takes_bank(preloaded_, preloaded_row_ + preloaded_row)) {
    return false;
  }
  a_.fed++;
  second_.fed++;
  preloaded_.fed++;
  count_busy();
  return true;
}

void ExecuteController::count_busy() {
  breakdown_.add(Cause::array_busy, pass_pc_);
  if (pass_ == Pass::preload) breakdown_.add(Cause::preloads_alone, pass_pc_);
}

// Each operand reads its next row unless it must wait for another operand's row, for
// its bank, or for a load that writes the bank. A goes first, then the compute's second operand,
// then what is preloaded.
void ExecuteController::feed_each() {
  const int total = total_rows_;
  const int a_row = a_.row(total);
  const int second_row = second_.row(total);
  const int preloaded_row = config_.array_dim - 1 - preloaded_.row(total);  // the last one first
  const u32 a_local_row = a_row_ + static_cast<u32>(a_row) * execute_config_.a_stride;
  const u32 second_local_row = second_row_ + static_cast<u32>(second_row);
  const u32 preloaded_local_row = preloaded_row_ + static_cast<u32>(preloaded_row);
  const u32 a_bank = bank(a_, a_local_row);
  const u32 second_bank = bank(second_, second_local_row);
  const u32 preloaded_bank = bank(preloaded_, preloaded_local_row);
  const auto share_bank = [](const Operand& x, u32 x_bank, const Operand& y, u32 y_bank) {
    return !x.is_none && !y.is_none && x_bank == y_bank && x.fed == y.fed;
  };
  const bool a_waits = a_.is_one_ahead(second_) || a_.is_one_ahead(preloaded_);
  const bool second_conflicts = share_bank(second_, second_bank, a_, a_bank);
  const bool second_waits =
      second_conflicts || second_.is_one_ahead(a_) || second_.is_one_ahead(preloaded_);
  const bool preloaded_conflicts = share_bank(preloaded_, preloaded_bank, a_, a_bank) ||
                                   share_bank(preloaded_, preloaded_bank, second_, second_bank);
  const bool preloaded_waits =
      preloaded_conflicts || preloaded_.is_one_ahead(a_) || preloaded_.is_one_ahead(second_);

  const bool a_stolen = is_taken(a_, a_row, a_local_row, a_bank);
  const bool second_stolen = is_taken(second_, second_row, second_local_row, second_bank);
  const bool preloaded_stolen =
      is_taken(preloaded_, preloaded_row, preloaded_local_row, preloaded_bank);
  const bool loses_to_write = (!a_waits && a_stolen) || (!second_waits && second_stolen) ||
                              (!preloaded_waits && preloaded_stolen);
  const bool os = is_output_stationary();
  if (pass_ == Pass::flush) {
    breakdown_.add(Cause::drain, pass_pc_);
  } else if (loses_to_write) {
    const bool is_a = !a_waits && a_stolen;
    const bool is_second = !is_a && !second_waits && second_stolen;
    breakdown_.add_at_bank(Cause::write_steal,
                           is_a              ? BankUsers::load_and_a
                           : is_second == os ? BankUsers::load_and_b
                                             : BankUsers::load_and_d,
                           is_a ? a_bank : is_second ? second_bank : preloaded_bank, pass_pc_);
  } else if (second_conflicts || preloaded_conflicts) {
    const bool with_a = second_conflicts || share_bank(preloaded_, preloaded_bank, a_, a_bank);
    breakdown_.add_at_bank(Cause::bank_conflict,
                           !with_a                  ? BankUsers::b_and_d
                           : second_conflicts == os ? BankUsers::a_and_b
                                                    : BankUsers::a_and_d,
                           second_conflicts ? second_bank : preloaded_bank, pass_pc_);
  } else {
    count_busy();
  }

  a_.fed += !a_waits && !a_stolen;
  second_.fed += !second_waits && !second_stolen;
  preloaded_.fed += !preloaded_waits && !preloaded_stolen;
}

void ExecuteController::feed_result_rows(int fed) {
  const int total = total_rows_;
  if (is_output_stationary()) {
    if (results_.size() < 2) return;
    const ResultTile& leaving = results_.front();
    for (; leaving.slot >= 0 && result_row_ < fed; result_row_++) {
      // The last row of the sums leaves first.
      mesh_.feed(leaving, total - 1 - result_row_, execute_config_.c_stride,
                 result_row_ == total - 1);
    }
  } else if (pass_ != Pass::preload && !results_.empty()) {
    for (; result_row_ < fed; result_row_++) {
      mesh_.feed(results_.front(), result_row_, execute_config_.c_stride,
                 result_row_ == total - 1);
    }
  }
}

void ExecuteController::finish_pass() {
  const bool leaves = is_output_stationary() ? results_.size() == 2
                                             : pass_ != Pass::preload && !results_.empty();
  if (leaves) results_.pop();
  ResultTile tile;
  tile.address.bits = LocalAddress::kNone;
  if (pass_ == Pass::compute || pass_ == Pass::both) completions_.push_fed(commands_.front().slot);
  if (pass_ == Pass::preload || pass_ == Pass::both) {
    const IssuedCommand& preload = commands_[pass_ == Pass::preload ? 0 : 1];
    tile = {preload.command.second.address, preload.command.second.rows, preload.slot};
    if (tile.address.is_none()) {
      completions_.push_fed(tile.slot);
      tile.slot = -1;
    }
  }
  if (is_output_stationary() || pass_ == Pass::preload || pass_ == Pass::both) {
    results_.push(tile);
  }
  if (pass_ != Pass::flush) commands_.pop();
  if (pass_ == Pass::both) commands_.pop();
  pass_ = Pass::none;
}

void ExecuteController::add_wakeups(Wakeup& wakeup) const {
  if (is_draining_) wakeup.at(drained_);
}

}  // namespace cosim
