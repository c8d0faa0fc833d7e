// The Python module tilewright.targets.gemmini.sim._cosim.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "simulation.hpp"

namespace nb = nanobind;

namespace cosim {
namespace {

constexpr u64 kMaxProgramBytes = 64ull << 20;

Config config_from_dict(const nb::dict& values) {
  Config config;
#define COSIM_READ(name) config.name = nb::cast<int>(values[#name]);
  COSIM_CONFIG_FIELDS(COSIM_READ)
#undef COSIM_READ
  return config;
}

std::vector<std::string> config_fields() {
#define COSIM_NAME(name) #name,
  return {COSIM_CONFIG_FIELDS(COSIM_NAME)};
#undef COSIM_NAME
}

std::vector<u8> copy_bytes(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) nb::raise_python_error();
  const u8* first = static_cast<const u8*>(view.buf);
  std::vector<u8> bytes(first, first + view.len);
  PyBuffer_Release(&view);
  return bytes;
}

nb::dict result_to_dict(const Result& result) {
  nb::dict out;
  out["status"] = result.status;
  out["cycles"] = result.cycles;
  out["instructions"] = result.instructions;
  out["pc"] = result.pc;
  out["macs"] = result.macs;
  out["scratchpad_bytes"] = result.scratchpad_bytes;
  out["accumulator_bytes"] = result.accumulator_bytes;
  nb::list outputs;
  for (const auto& bytes : result.outputs) outputs.append(nb::bytes(bytes.data(), bytes.size()));
  out["outputs"] = outputs;
  nb::list later;
  for (const auto& call : result.later_outputs) {
    nb::list written;
    for (const auto& bytes : call) written.append(nb::bytes(bytes.data(), bytes.size()));
    later.append(written);
  }
  out["later_outputs"] = later;
  out["finished"] = result.finished;
  nb::dict breakdown;
  for (const auto& [cause, cycles] : result.breakdown) breakdown[cause.c_str()] = cycles;
  out["breakdown"] = breakdown;
  nb::list hotspots;
  for (const Hotspot& hotspot : result.hotspots) {
    hotspots.append(nb::make_tuple(hotspot.cause, hotspot.pc, hotspot.cycles));
  }
  out["hotspots"] = hotspots;
  nb::list bank_losses;
  for (const BankLoss& loss : result.bank_losses) {
    bank_losses.append(
        nb::make_tuple(loss.cause, loss.users, loss.bank, loss.cycles, loss.first_pc));
  }
  out["bank_losses"] = bank_losses;
  nb::list phases;
  for (const auto& cycles : result.phases) {
    nb::list by_cause;
    for (u64 count : cycles) by_cause.append(count);
    phases.append(by_cause);
  }
  out["phases"] = phases;
  nb::list gaps;
  for (const Gap& gap : result.gaps) {
    gaps.append(nb::make_tuple(gap.start, gap.cycles, gap.cause, gap.pc));
  }
  out["gaps"] = gaps;
  nb::list executed;
  for (const auto& [pc, count] : result.executed) executed.append(nb::make_tuple(pc, count));
  out["executed"] = executed;
  out["computes"] = result.computes;
  nb::list unordered;
  for (const UnorderedPair& pair : result.unordered) {
    unordered.append(nb::make_tuple(fault_name(pair.first.kind), pair.first.message, pair.first.pc,
                                    pair.first.earlier_pc, pair.count));
  }
  out["unordered"] = unordered;
  out["cpu_read_data"] = result.cpu_read_data;
  nb::list conditions;
  for (const auto& [pc, condition] : result.conditions) {
    nb::list calls;
    for (const CallRecord& call : condition.calls) {
      nb::list values;
      for (const Sequence& one : call.values) values.append(nb::make_tuple(one.all, one.only));
      calls.append(nb::make_tuple(nb::make_tuple(call.operands.all, call.operands.only),
                                  nb::make_tuple(call.results.all, call.results.only),
                                  nb::tuple(values)));
    }
    nb::list producers;
    for (const auto& pcs : condition.producers) producers.append(nb::cast(pcs));
    conditions.append(nb::make_tuple(pc, condition.is_jump, condition.is_number, condition.is_kept,
                                     condition.was_false, condition.was_true, producers, calls));
  }
  out["conditions"] = conditions;
  out["fault"] = nb::none();
  if (result.fault) {
    const Fault& fault = *result.fault;
    out["fault"] = nb::make_tuple(fault_name(fault.kind), fault.message, fault.pc, fault.second_pc);
  }
  return out;
}

Mode mode_of(bool timing, bool every_cycle) {
  if (!timing) return Mode::functional;
  return every_cycle ? Mode::timed_every_cycle : Mode::timed;
}

nb::dict run_kernel_from_python(const nb::dict& config, const nb::bytes& elf,
                                const nb::list& regions, const nb::list& later,
                                const std::string& symbol, bool timing,
                                bool order_by_timing, bool every_cycle,
                                std::optional<u64> limit_cycles,
                                u64 max_instructions, std::optional<double> max_host_s,
                                const std::optional<std::vector<std::pair<u64, u64>>>& joins) {
  const Config parameters = config_from_dict(config);
  std::vector<Argument> arguments;
  for (nb::handle item : regions) {
    const auto region = nb::cast<nb::tuple>(item);
    arguments.push_back({nb::cast<u64>(region[0]), copy_bytes(region[1]),
                         nb::cast<bool>(region[2]), nb::cast<std::string>(region[3]),
                         nb::cast<bool>(region[4])});
  }
  std::vector<std::vector<std::vector<u8>>> calls;
  for (nb::handle call : later) {
    auto& contents = calls.emplace_back();
    for (nb::handle item : nb::cast<nb::list>(call)) contents.push_back(copy_bytes(item));
  }
  const u8* file = static_cast<const u8*>(elf.data());
  const u64 file_size = elf.size();
  Result result;
  {
    nb::gil_scoped_release release;
    result = run_kernel(parameters, read_elf(file, file_size, kMaxProgramBytes),
                        std::move(arguments), calls, symbol, mode_of(timing, every_cycle),
                        order_by_timing ? OrderPolicy::timing : OrderPolicy::fence,
                        {limit_cycles, max_instructions, max_host_s},
                        joins ? std::optional(Joins(joins->begin(), joins->end()))
                              : std::nullopt);
  }
  return result_to_dict(result);
}

nb::dict run_program_from_python(const nb::dict& config, const nb::bytes& elf,
                                 const nb::list& segments,
                                 const std::vector<std::pair<u64, u64>>& read, bool timing,
                                 bool every_cycle, u64 max_instructions) {
  const Config parameters = config_from_dict(config);
  std::vector<std::pair<u64, std::vector<u8>>> extra;
  for (nb::handle item : segments) {
    const auto segment = nb::cast<nb::tuple>(item);
    extra.emplace_back(nb::cast<u64>(segment[0]), copy_bytes(segment[1]));
  }
  const Mode mode = mode_of(timing, every_cycle);
  const u8* file = static_cast<const u8*>(elf.data());
  const u64 file_size = elf.size();
  Result result;
  {
    nb::gil_scoped_release release;
    result = run_program(parameters, read_elf(file, file_size, kMaxProgramBytes), std::move(extra),
                         read, mode, {std::nullopt, max_instructions, std::nullopt});
  }
  return result_to_dict(result);
}

}  // namespace
}  // namespace cosim

NB_MODULE(_cosim, module) {
  module.doc() = "Cycle-level Gemmini co-simulator; use it through tilewright.targets.gemmini.sim.";
  module.attr("SOURCE_HASH") = COSIM_SOURCE_HASH;
  module.def("config_fields", &cosim::config_fields);
  module.def("run_kernel", &cosim::run_kernel_from_python, nb::arg("config"), nb::arg("elf"),
             nb::arg("regions"), nb::arg("later"), nb::arg("symbol"), nb::arg("timing"),
             nb::arg("order_by_timing"), nb::arg("every_cycle"), nb::arg("limit_cycles").none(), nb::arg("max_instructions"),
             nb::arg("max_host_s").none(), nb::arg("joins").none());
  module.def("run_program", &cosim::run_program_from_python, nb::arg("config"), nb::arg("elf"),
             nb::arg("segments"), nb::arg("read"), nb::arg("timing"), nb::arg("every_cycle"),
             nb::arg("max_instructions"));
}
