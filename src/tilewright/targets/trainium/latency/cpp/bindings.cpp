// The Python module tilewright.targets.trainium.latency._schedule.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "program.hpp"

namespace nb = nanobind;

namespace schedule {
namespace {

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
nb::object owned(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

void per_engine(const nb::object& from, double* to) {
  const auto values = nb::cast<std::vector<double>>(from);
  if (values.size() != kEngines) throw std::invalid_argument("a rule needs a value per engine");
  std::copy(values.begin(), values.end(), to);
}

Rules rules_from(const nb::dict& values) {
  Rules rules{};
  rules.semaphore_ns = nb::cast<double>(values["semaphore_ns"]);
  per_engine(values["result_ns"], rules.result_ns);
  per_engine(values["start_ns"], rules.start_ns);
  rules.dma_fixed_ns = nb::cast<double>(values["dma_fixed_ns"]);
  rules.dma_engines = nb::cast<int>(values["dma_engines"]);
  rules.window = nb::cast<int>(values["window"]);
  rules.psum_port_shared = nb::cast<bool>(values["psum_port_shared"]);
  rules.vector_port_shared = nb::cast<bool>(values["vector_port_shared"]);
  return rules;
}

nb::tuple place(const nb::dict& rules, Table cost, Column<double> job_ns, Column<int32_t> jobs,
                Column<uint8_t> ports, Column<int32_t> first_access, Column<int32_t> tensor,
                Column<uint8_t> kind, Column<uint8_t> quarters, Column<int64_t> low,
                Column<int64_t> high, Column<int32_t> previous) {
  const size_t count = jobs.shape(0), accesses = tensor.shape(0);
  if (cost.shape(0) != count || cost.shape(1) != kDma || job_ns.shape(0) != count ||
      ports.shape(0) != count || first_access.shape(0) != count + 1 ||
      kind.shape(0) != accesses || quarters.shape(0) != accesses || low.shape(0) != accesses ||
      high.shape(0) != accesses) {
    throw std::invalid_argument("the columns of instructions or accesses differ in length");
  }
  Program program;
  program.previous.assign(previous.data(), previous.data() + previous.shape(0));
  program.accesses.reserve(accesses);
  for (size_t a = 0; a < accesses; ++a) {
    if (tensor(a) < 0 || static_cast<size_t>(tensor(a)) >= program.previous.size()) {
      throw std::invalid_argument("an access names a tensor that is not there");
    }
    program.accesses.push_back({tensor(a), kind(a), quarters(a), low(a), high(a)});
  }
  program.instructions.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const int first = first_access(i), last = first_access(i + 1);
    bool able = jobs(i) > 0;
    Instruction instruction{{}, job_ns(i), jobs(i), (ports(i) & 1) != 0, (ports(i) & 2) != 0,
                            first, last};
    for (int e = 0; e < kDma; ++e) {
      instruction.cost_ns[e] = cost(i, e);
      able = able || cost(i, e) >= 0;
    }
    if (first < 0 || last < first || static_cast<size_t>(last) > accesses || !able) {
      throw std::invalid_argument("an instruction has no engine, or accesses that are not there");
    }
    program.instructions.push_back(instruction);
  }
  std::vector<Placed> placed;
  const Rules known = rules_from(rules);
  {
    nb::gil_scoped_release release;
    placed = run(program, known);
  }
  std::vector<int32_t> engine(count), blocker(count), wait(count);
  std::vector<double> start(count), end(count);
  for (size_t i = 0; i < count; ++i) {
    engine[i] = placed[i].engine;
    blocker[i] = placed[i].blocker;
    wait[i] = placed[i].wait;
    start[i] = placed[i].start_ns;
    end[i] = placed[i].end_ns;
  }
  return nb::make_tuple(owned(std::move(engine)), owned(std::move(start)), owned(std::move(end)),
                        owned(std::move(blocker)), owned(std::move(wait)));
}

}  // namespace
}  // namespace schedule

NB_MODULE(_schedule, module) {
  module.attr("SOURCE_HASH") = SCHEDULE_SOURCE_HASH;
  module.def("place", &schedule::place);
}
