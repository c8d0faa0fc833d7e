#include "timing_model.hpp"

#include <stdexcept>

namespace cosim {
namespace {

constexpr Cycle kDeadlineInterval = 1 << 16;  // steps between looks at the clock

// How many moves fit into the DMA at once: one is being sent while the others return.
int moves_in_flight(const Config& config) { return config.dma_in_flight / config.array_dim + 1; }

}  // namespace

TimingModel::TimingModel(const Config& config, EventSource& source, Memory& contents,
                         bool waits_for_mark, bool steps_every_cycle)
    : steps_every_cycle_(steps_every_cycle),
      ports_(config),
      memory_(config),
      order_(contents),
      cpu_cache_(config),
      station_(config, clock_),
      load_tracker_(clock_, moves_in_flight(config)),
      store_tracker_(clock_, moves_in_flight(config)),
      completions_(clock_, station_, load_tracker_, store_tracker_),
      reader_(config, clock_, ports_, memory_, order_, cpu_cache_, load_tracker_, breakdown_),
      writer_(config, clock_, ports_, memory_, order_, cpu_cache_, store_tracker_, breakdown_),
      mesh_(config, clock_, ports_, completions_),
      load_(config, clock_, station_.issued[kLoadUnit], load_tracker_, reader_),
      execute_(config, clock_, ports_, station_.issued[kExecuteUnit], mesh_, completions_,
               breakdown_),
      store_(config, clock_, station_.issued[kStoreUnit], store_tracker_, writer_),
      front_end_(config, clock_, source, cpu_cache_, memory_, station_, order_, contents,
                 breakdown_) {
  if (waits_for_mark) front_end_.skip_to_mark();
}

TimingStatus TimingModel::run(std::optional<u64> limit,
                              std::optional<std::chrono::steady_clock::time_point> deadline) {
  for (u64 steps = 1;; steps++) {
    const CpuStatus status = step();
    if (status == CpuStatus::finished) return TimingStatus::finished;
    if (status == CpuStatus::source_limit) return TimingStatus::source_limit;
    if (!clock_.changed && !steps_every_cycle_) skip_quiet_cycles(limit);
    if (limit && clock_.now > *limit) return TimingStatus::cycle_limit;
    if (steps % kDeadlineInterval == 0 && deadline &&
        std::chrono::steady_clock::now() > *deadline) {
      return TimingStatus::source_limit;
    }
  }
}

// Units act from the end of the pipelines to their start, so that what one frees in a cycle is
// seen by those before it in the same cycle, as in hardware.
CpuStatus TimingModel::step() {
  clock_.now++;
  clock_.changed = false;
  ports_.begin_cycle();
  breakdown_.begin_cycle();
  mesh_.tick();
  reader_.write_rows();
  writer_.tick();
  if (!execute_.tick()) {
    u64 pc = 0;
    const Cause cause = front_end_.idle_cause(pc);
    breakdown_.add(cause, pc);
    if (cause == Cause::rs_full_store) {
      if (station_.store_waits_for_products()) breakdown_.add(Cause::full_store_products, pc);
      if (writer_.waited_for_bank()) breakdown_.add(Cause::full_store_bank, pc);
    }
  }
  station_.issue();
  front_end_.allocate();
  load_.tick();
  reader_.issue_requests();
  store_.tick();
  completions_.tick();
  return front_end_.tick(accelerator_is_busy());
}

bool TimingModel::accelerator_is_busy() const {
  return station_.is_busy() || reader_.is_busy() || writer_.is_busy();
}

// Nothing changed: every cycle is like this one until the next scheduled change.
void TimingModel::skip_quiet_cycles(std::optional<u64> limit) {
  Wakeup wakeup(clock_.now);
  mesh_.add_wakeups(wakeup);
  reader_.add_wakeups(wakeup);
  writer_.add_wakeups(wakeup);
  execute_.add_wakeups(wakeup);
  completions_.add_wakeups(wakeup);
  station_.add_wakeups(wakeup);
  front_end_.add_wakeups(wakeup);
  if (limit) wakeup.at(*limit + 1);
  if (wakeup.next() == Wakeup::kNever) throw std::logic_error("the timing model is deadlocked");
  const Cycle skipped = wakeup.next() - clock_.now - 1;
  breakdown_.repeat(skipped);
  clock_.now += skipped;
}

}  // namespace cosim
