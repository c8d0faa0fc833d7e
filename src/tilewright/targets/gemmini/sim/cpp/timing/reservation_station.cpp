#include "reservation_station.hpp"

#include <bit>

namespace cosim {
ReservationStation::ReservationStation(const Config& config, Clock& clock)
    : config_(config),
      clock_(clock),
      queue_capacity_{static_cast<u32>(config.commands_load_queue),
                      static_cast<u32>(config.commands_execute_queue +
                                       config.commands_unroller_entries),
                      static_cast<u32>(config.commands_store_queue)},
      issue_latency_{1, 2, 1} {  // a register, and the unroller before the execute queue
  const int sizes[kUnits] = {config.commands_load_entries, config.commands_execute_entries,
                             config.commands_store_entries};
  for (int unit = 0; unit < kUnits; unit++) {
    entries_[unit].resize(static_cast<std::size_t>(sizes[unit]));
    all_slots_[unit] = sizes[unit] == 32 ? ~0u : (1u << sizes[unit]) - 1;
  }
  for (int& stride : block_stride_) stride = config.array_dim;
  issues_at_.fill(kNever);
}

ReservationStation::Range ReservationStation::range_of(LocalAddress address, u32 rows) {
  if (address.is_none()) return {};
  const u32 first = address.row() | static_cast<u32>(address.in_accumulator()) << 31;
  return {first, first + rows};
}

// Which local rows a command reads and writes.
void ReservationStation::find_operands(Entry& entry) const {
  const TimedCommand& c = entry.command;
  const u32 dim = static_cast<u32>(config_.array_dim);
  const u32 rows = static_cast<u32>(c.second.rows);
  const u32 blocks = (static_cast<u32>(c.second.cols) + dim - 1) / dim;
  if (c.funct == kConfig) return;
  if (is_mvin(c.funct)) {
    const u32 stride = static_cast<u32>(block_stride_[load_id(c.funct)]);
    entry.written = range_of(c.second.address, (blocks - 1) * stride + rows);
  } else if (c.funct == kMvout) {
    entry.read[0] = range_of(c.second.address, (blocks - 1) * dim + rows);
  } else if (c.funct == kPreload) {
    entry.read[0] = range_of(c.first.address, static_cast<u32>(c.first.rows));
    entry.written = range_of(c.second.address, rows * execute_config_.c_stride);
  } else {
    const int a_rows = execute_config_.a_transposed ? c.first.cols : c.first.rows;
    entry.read[0] =
        range_of(c.first.address, static_cast<u32>(a_rows) * execute_config_.a_stride);
    const bool b_transposed = !execute_config_.weight_stationary && execute_config_.b_transposed;
    entry.read[1] = range_of(
        c.second.address, b_transposed ? static_cast<u32>(c.second.cols) : rows);
  }
}

template <typename Conflict>
u32 ReservationStation::slots_where(Unit unit, Conflict conflict) const {
  u32 slots = 0;
  for (u32 left = valid_[unit]; left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    if (conflict(entries_[unit][static_cast<std::size_t>(slot)])) slots |= 1u << slot;
  }
  return slots;
}

// Only local rows are compared: the order of DRAM accesses is not tracked.
void ReservationStation::find_dependencies(Unit unit, Entry& entry) const {
  const bool is_config = entry.command.funct == kConfig;
  if (is_config) return;
  const auto touches = [](const Entry& a, const Entry& b) {
    return a.written.overlaps(b.written) || a.written.overlaps(b.read[0]) ||
           a.written.overlaps(b.read[1]);
  };
  if (unit != kLoadUnit) {
    entry.waits_for[kLoadUnit] = slots_where(kLoadUnit, [&](const Entry& load) {
      return touches(load, entry);
    });
  }
  if (unit != kExecuteUnit) {
    entry.waits_for[kExecuteUnit] = slots_where(kExecuteUnit, [&](const Entry& execute) {
      return unit == kLoadUnit ? touches(entry, execute)
                               : execute.written.overlaps(entry.read[0]);
    });
  }
  if (unit != kStoreUnit) {
    entry.waits_for[kStoreUnit] = slots_where(kStoreUnit, [&](const Entry& store) {
      return entry.written.overlaps(store.read[0]);
    });
  }
}

void ReservationStation::remember_config(const TimedCommand& c) {
  if (config_target(c.rs1) == kConfigLoad) {
    block_stride_[load_config_id(c.rs1)] = unpack_load_config(c.rs1, c.rs2).block_stride;
  } else if (config_target(c.rs1) == kConfigExecute) {
    execute_config_ = merge_execute_config(c.rs1, c.rs2, execute_config_);
  }
}

void ReservationStation::insert(Unit unit, const TimedCommand& command) {
  const int slot = std::countr_zero(~valid_[unit]);
  Entry& entry = entries_[unit][static_cast<std::size_t>(slot)];
  entry.command = command;
  entry.written = entry.read[0] = entry.read[1] = {};
  entry.waits_for = {};
  entry.ready = clock_.now + 1;
  find_operands(entry);
  find_dependencies(unit, entry);
  valid_[unit] |= 1u << slot;
  waiting_[unit].push(slot);
  waiting_slots_[unit] |= 1u << slot;
  if (waiting_[unit].size() == 1) find_issue_time(unit);
  if (command.funct == kConfig) remember_config(command);
  if (command.funct == kPreload) has_solitary_preload_ = true;
  if (is_compute(command.funct)) has_solitary_preload_ = false;
  clock_.changed = true;
}

void ReservationStation::issue_oldest(Unit unit) {
  const int slot = waiting_[unit].front();
  const TimedCommand& command = entries_[unit][static_cast<std::size_t>(slot)].command;
  issued[unit].push({command, slot, clock_.now + issue_latency_[unit]});
  waiting_[unit].pop();
  waiting_slots_[unit] &= ~(1u << slot);
  find_issue_time(unit);
  clock_.changed = true;
  const bool completes_on_issue = command.funct == kConfig && unit != kExecuteUnit;
  if (completes_on_issue) complete(unit, slot);
}

void ReservationStation::find_issue_time(Unit unit) {
  issues_at_[unit] = kNever;
  if (waiting_[unit].empty()) return;
  const Entry& oldest = entries_[unit][static_cast<std::size_t>(waiting_[unit].front())];
  const auto& waits = oldest.waits_for;
  if ((waits[0] | waits[1] | waits[2]) == 0) issues_at_[unit] = oldest.ready;
}

void ReservationStation::complete(Unit unit, int slot) {
  const u32 others = ~(1u << slot);
  valid_[unit] &= others;
  for (int u = 0; u < kUnits; u++) {
    for (u32 left = waiting_slots_[u]; left != 0; left &= left - 1) {
      const auto index = static_cast<std::size_t>(std::countr_zero(left));
      entries_[u][index].waits_for[unit] &= others;
    }
    find_issue_time(static_cast<Unit>(u));
  }
  clock_.changed = true;
}

bool ReservationStation::is_busy() const {
  const u32 execute = valid_[kExecuteUnit];
  const u32 beyond_one = has_solitary_preload_ ? execute & (execute - 1) : execute;
  return (valid_[kLoadUnit] | valid_[kStoreUnit] | beyond_one) != 0;
}

const TimedCommand* ReservationStation::waiting_execute() const {
  if (waiting_[kExecuteUnit].empty()) return nullptr;
  const auto slot = static_cast<std::size_t>(waiting_[kExecuteUnit].front());
  return &entries_[kExecuteUnit][slot].command;
}

const TimedCommand* ReservationStation::blocker_of_waiting_execute(Unit unit) const {
  if (waiting_[kExecuteUnit].empty()) return nullptr;
  const auto slot = static_cast<std::size_t>(waiting_[kExecuteUnit].front());
  const u32 blockers = entries_[kExecuteUnit][slot].waits_for[unit];
  if (blockers == 0) return nullptr;
  return &entries_[unit][static_cast<std::size_t>(std::countr_zero(blockers))].command;
}

bool ReservationStation::store_waits_for_products() const {
  if (waiting_[kStoreUnit].empty() || valid_[kStoreUnit] != waiting_slots_[kStoreUnit]) return false;
  const auto slot = static_cast<std::size_t>(waiting_[kStoreUnit].front());
  return entries_[kStoreUnit][slot].waits_for[kExecuteUnit] != 0;
}

void ReservationStation::add_wakeups(Wakeup& wakeup) const {
  for (int unit = 0; unit < kUnits; unit++) {
    if (!waiting_[unit].empty()) {
      wakeup.at(entries_[unit][static_cast<std::size_t>(waiting_[unit].front())].ready);
    }
    for (std::size_t i = 0; i < issued[unit].size(); i++) wakeup.at(issued[unit][i].ready);
  }
}

}  // namespace cosim
