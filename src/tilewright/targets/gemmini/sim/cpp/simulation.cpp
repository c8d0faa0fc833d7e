#include "simulation.hpp"

#include <algorithm>
#include <stdexcept>

#include "accelerator.hpp"
#include "hart.hpp"
#include "timing/timing_model.hpp"

namespace cosim {
namespace {

constexpr u64 kStackBytes = 1ull << 20;
// Far from any address a kernel is linked to or an argument is given.
constexpr u64 kStackBase = 0x4000000000ull;
constexpr u64 kEventBatch = 1024;

Region region_of(const ElfSegment& segment, const std::string& name) {
  Region region;
  region.base = segment.address;
  region.bytes = segment.bytes;
  region.writable = segment.writable;
  region.executable = segment.executable;
  region.name = name;
  return region;
}

Region stack_region() {
  Region region;
  region.base = kStackBase;
  region.is_stack = true;
  region.bytes.resize(kStackBytes);
  region.filled.resize(kStackBytes);
  region.writable = true;
  region.name = "the stack";
  return region;
}

HartLimits hart_limits(const Limits& limits) {
  HartLimits hart;
  hart.instructions = limits.instructions;
  if (limits.host_s) {
    hart.deadline = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                        std::chrono::duration<double>(*limits.host_s));
  }
  return hart;
}

// Fills memory that the program reserves, or adds read-only memory.
void load_segment(Memory& memory, u64 address, std::vector<u8> bytes) {
  if (Region* reserved = memory.find(address, bytes.size())) {
    const auto offset = static_cast<std::ptrdiff_t>(address - reserved->base);
    std::copy(bytes.begin(), bytes.end(), reserved->bytes.begin() + offset);
    return;
  }
  Region region;
  region.base = address;
  region.bytes = std::move(bytes);
  region.name = "a data segment";
  memory.add(std::move(region));
}

// Runs what a bare-metal program does after its measured part, its checks for instance.
void finish(Hart& hart) {
  std::vector<Event> dropped;
  while (hart.run(dropped, kEventBatch) == HartStatus::running) dropped.clear();
}

// Runs a program in `memory` and fills everything in the result but the outputs.
Result run(const Config& config, Memory& memory, const Hart::Start& start,
           const std::vector<u64>& arguments, Mode mode, OrderPolicy order, const Limits& limits,
           Conditions* conditions = nullptr) {
  Result result;
  // Bare-metal programs may measure with whatever the memories hold at power-on.
  Accelerator accelerator(config, memory, !start.is_machine);
  Pipeline pipeline(config);
  const HartLimits hart_limit = hart_limits(limits);
  const bool with_timing = mode != Mode::functional;
  Hart hart(memory, accelerator, with_timing ? &pipeline : nullptr, conditions, start, hart_limit);
  for (std::size_t i = 0; i < arguments.size(); i++) {
    hart.set_argument(static_cast<int>(i), arguments[i]);
  }
  std::vector<Event> events;
  try {
    if (with_timing) {
      EventSource source(hart, kEventBatch);
      TimingModel timing(config, source, memory, start.is_machine,
                         mode == Mode::timed_every_cycle);
      const TimingStatus status = timing.run(limits.cycles, hart_limit.deadline);
      const auto mispredicted = pipeline.mispredicted();
      if (status == TimingStatus::finished) finish(hart);
      if (status == TimingStatus::cycle_limit) result.status = "slower_than_limit";
      if (status == TimingStatus::source_limit) result.status = "timeout";
      result.cycles = timing.cycles();
      timing.count_mispredicted(mispredicted);
      timing.report(result.breakdown, result.hotspots);
      result.bank_losses = timing.bank_losses();
      result.phases = timing.phases();
      result.gaps = timing.longest_gaps();
      result.unordered = timing.unordered();
      if (order == OrderPolicy::fence && !result.unordered.empty()) {
        const OpenOrder& first = result.unordered.front().first;
        throw Fault{first.kind, first.message, first.pc, first.earlier_pc};
      }
    } else if (hart.run(events, 1) != HartStatus::finished) {
      result.status = "timeout";
    }
  } catch (Fault& fault) {
    result.status = "fault";
    result.fault = std::move(fault);
  }
  result.instructions = hart.instructions();
  result.pc = hart.pc();
  result.executed = hart.executed();
  result.computes = hart.computes();
  result.macs = accelerator.macs();
  result.scratchpad_bytes =
      accelerator.scratchpad_rows_touched() * static_cast<u64>(config.scratchpad_row_bytes());
  result.accumulator_bytes =
      accelerator.accumulator_rows_touched() * static_cast<u64>(config.accumulator_row_bytes());
  return result;
}

Ordering ordering(Mode mode, OrderPolicy order) {
  if (mode != Mode::functional) return Ordering::record;
  return order == OrderPolicy::fence ? Ordering::refuse : Ordering::ignore;
}

// The first call, and the `later` ones unless it fails.
Result run_calls(const Config& config, Memory& memory, const Hart::Start& start,
                 const std::vector<u64>& addresses,
                 const std::vector<std::pair<u64, u64>>& writable,
                 const std::vector<std::vector<std::vector<u8>>>& later, Mode mode,
                 OrderPolicy order, const Limits& limits, Conditions* conditions) {
  Result result = run(config, memory, start, addresses, mode, order, limits, conditions);
  for (const auto& [address, size] : writable) {
    result.outputs.push_back(memory.find(address, size)->bytes);
  }
  if (result.status != "ok") return result;
  result.finished = 1;
  for (const auto& call : later) {
    memory.fence();
    for (std::size_t i = 0; i < call.size(); i++) {
      Region& region = *memory.find(addresses[i], 1);
      std::vector<u8>& bytes = region.bytes;
      if (call[i].size() != bytes.size()) {
        throw std::invalid_argument("an argument of a later call has another size");
      }
      std::copy(call[i].begin(), call[i].end(), bytes.begin());
      std::fill(region.written.begin(), region.written.end(), u8{0});
    }
    Result again = run(config, memory, start, addresses, Mode::functional, order, limits,
                       conditions);
    if (again.status != "ok") {
      result.status = again.status;
      result.fault = std::move(again.fault);
      result.pc = again.pc;
      result.instructions = again.instructions;
      return result;
    }
    result.finished++;
    auto& outputs = result.later_outputs.emplace_back();
    for (const auto& [address, size] : writable) {
      outputs.push_back(memory.find(address, size)->bytes);
    }
  }
  return result;
}

}  // namespace

Result run_kernel(const Config& config, const Elf& elf, std::vector<Argument> arguments,
                  const std::vector<std::vector<std::vector<u8>>>& later,
                  const std::string& symbol, Mode mode, OrderPolicy order, const Limits& limits,
                  std::optional<Joins> joins) {
  const auto entry = elf.symbol(symbol);
  if (!entry) throw std::invalid_argument("the ELF file does not define " + symbol);
  if (arguments.size() > 8) throw std::invalid_argument("a kernel takes at most 8 arguments");
  for (const auto& call : later) {
    if (call.size() != arguments.size()) {
      throw std::invalid_argument("a later call needs as many arguments as the first");
    }
  }
  Memory memory(ordering(mode, order));
  for (const ElfSegment& segment : elf.segments) {
    memory.add(region_of(segment, segment.executable ? "the code" : "the kernel's static data"));
  }
  memory.add(stack_region());
  std::vector<u64> addresses;
  std::vector<std::pair<u64, u64>> writable;
  for (Argument& argument : arguments) {
    addresses.push_back(argument.address);
    if (argument.writable) writable.emplace_back(argument.address, argument.bytes.size());
    Region region;
    region.base = argument.address;
    region.bytes = std::move(argument.bytes);
    region.writable = argument.writable;
    region.input = !argument.writable;
    region.is_argument = true;
    region.name = "argument " + argument.name;
    if (!argument.given) region.written.resize(region.bytes.size(), 0);
    memory.add(std::move(region));
  }
  Hart::Start start;
  start.pc = *entry;
  start.stack_pointer = kStackBase + kStackBytes;
  std::optional<Conditions> conditions;
  if (joins) {
    conditions.emplace(memory, std::move(*joins));
    memory.set_conditions(&*conditions);
  }
  Result result = run_calls(config, memory, start, addresses, writable, later, mode, order, limits,
                            conditions ? &*conditions : nullptr);
  result.cpu_read_data = memory.cpu_read_data();
  if (conditions) {
    for (const auto& [pc, condition] : conditions->found()) {
      if (condition.is_on_data || condition.is_kept) result.conditions.emplace_back(pc, condition);
    }
    std::sort(result.conditions.begin(), result.conditions.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return result;
}

Result run_program(const Config& config, const Elf& elf,
                   std::vector<std::pair<u64, std::vector<u8>>> segments,
                   const std::vector<std::pair<u64, u64>>& read, Mode mode,
                   const Limits& limits) {
  Memory memory(ordering(mode, OrderPolicy::fence));
  for (const ElfSegment& segment : elf.segments) memory.add(region_of(segment, "the program"));
  for (auto& [address, bytes] : segments) load_segment(memory, address, std::move(bytes));
  Hart::Start start;
  start.pc = elf.entry;
  start.is_machine = true;
  start.finish_address = elf.symbol("tohost");
  if (!start.finish_address) throw std::invalid_argument("the program has no symbol tohost");
  Result result = run(config, memory, start, {}, mode, OrderPolicy::fence, limits);
  for (const auto& [address, size] : read) {
    const Region* region = memory.find(address, size);
    if (!region) throw std::invalid_argument("the range to read is outside the program's memory");
    const auto first = region->bytes.begin() + static_cast<std::ptrdiff_t>(address - region->base);
    result.outputs.emplace_back(first, first + static_cast<std::ptrdiff_t>(size));
  }
  return result;
}

}  // namespace cosim
