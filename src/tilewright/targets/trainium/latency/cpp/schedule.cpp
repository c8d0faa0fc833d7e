// List scheduling: every engine takes the first ready instruction in program order, at most a
// window ahead of the oldest one that has not started; the compiler reorders like this.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "dependences.hpp"
#include "program.hpp"

namespace schedule {
namespace {

using Ready = std::priority_queue<int, std::vector<int>, std::greater<>>;
using Ripe = std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>,
                                 std::greater<>>;

class Scheduler {
 public:
  Scheduler(const Program& program, const Rules& rules)
      : program_(program),
        rules_(rules),
        dependences_(program),
        placed_(program.instructions.size(), Placed{-1, 0, 0, -1, kNothing}),
        ready_at_(program.instructions.size(), 0.0),
        left_(program.instructions.size()),
        dma_free_(std::max(1, rules.dma_engines), 0.0) {}

  std::vector<Placed> run() {
    const int count = static_cast<int>(program_.instructions.size());
    for (int i = 0; i < count; ++i) {
      left_[i] = dependences_.count(i);
      if (left_[i] == 0) ripe_.emplace(0.0, i);
    }
    int oldest = 0;
    while (oldest < count) {
      while (!ripe_.empty() && ripe_.top().first <= now_) {
        enqueue(ripe_.top().second);
        ripe_.pop();
      }
      bool started = false;
      const int limit = rules_.window > count - oldest ? count : oldest + rules_.window;
      for (int engine = 0; engine < kEngines; ++engine) started |= start_on(engine, limit);
      while (oldest < count && placed_[oldest].engine >= 0) ++oldest;
      if (!started && !advance()) break;
    }
    return std::move(placed_);
  }

 private:
  const Instruction& at(int i) const { return program_.instructions[i]; }

  void enqueue(int i) {
    const Instruction& instruction = at(i);
    if (instruction.jobs > 0) {
      ready_[kDma].push(i);
      return;
    }
    int able = 0, last = 0;
    for (int e = 0; e < kDma; ++e) {
      if (instruction.cost_ns[e] >= 0) ++able, last = e;
    }
    if (able > 1) {
      shared_.push(i);
    } else {
      ready_[last].push(i);
    }
  }

  // The queue that holds the first instruction which `engine` can take, or null.
  Ready* queue_of(int engine) {
    Ready* own = ready_[engine].empty() ? nullptr : &ready_[engine];
    if (engine == kDma || shared_.empty() || at(shared_.top()).cost_ns[engine] < 0) return own;
    return own && own->top() < shared_.top() ? own : &shared_;
  }

  bool start_on(int engine, int limit) {
    const double free =
        engine == kDma ? *std::min_element(dma_free_.begin(), dma_free_.end()) : free_[engine];
    if (free > now_) return false;
    Ready* queue = queue_of(engine);
    if (!queue || queue->top() >= limit) return false;
    const int i = queue->top();
    const Instruction& instruction = at(i);
    const bool psum = rules_.psum_port_shared && instruction.psum &&
                      (engine == kVector || engine == kScalar);
    const bool sbuf = rules_.vector_port_shared && instruction.sbuf &&
                      (engine == kVector || engine == kGpsimd);
    // A port that the same engine holds is free by the time the engine is.
    if ((psum && psum_free_ > now_) || (sbuf && sbuf_free_ > now_)) {
      placed_[i].wait = kPort;
      return false;
    }
    queue->pop();
    Placed& placed = placed_[i];
    placed.engine = engine;
    placed.start_ns = now_;
    placed.end_ns = engine == kDma ? transfer(instruction) : now_ + instruction.cost_ns[engine];
    if (placed.wait != kPort && now_ > ready_at_[i]) placed.wait = kEngineBusy;
    if (engine != kDma) free_[engine] = placed.end_ns;
    // The next instruction on a port may start while this one ends: starting needs no port.
    const double port_free = placed.end_ns - rules_.start_ns[engine];
    if (psum) psum_free_ = port_free;
    if (sbuf) sbuf_free_ = port_free;
    release(i, engine, placed.end_ns);
    return true;
  }

  // Deals a transfer's jobs to the engines that are free first; returns when the last is done.
  double transfer(const Instruction& instruction) {
    double end = now_;
    for (int job = 0; job < instruction.jobs; ++job) {
      double& free = *std::min_element(dma_free_.begin(), dma_free_.end());
      free = std::max(free, now_) + instruction.job_ns;
      end = std::max(end, free);
    }
    return end + rules_.dma_fixed_ns;
  }

  void release(int i, int engine, double end) {
    for (const Edge& edge : dependences_.users(i)) {
      const Instruction& user = at(edge.to);
      double ready = end;
      if (engine != kDma && user.jobs == 0) {
        const bool same = user.cost_ns[engine] >= 0;
        ready += same ? (edge.buffer ? 0.0 : rules_.result_ns[engine]) : rules_.semaphore_ns;
      }
      if (ready >= ready_at_[edge.to]) {
        ready_at_[edge.to] = ready;
        placed_[edge.to].blocker = i;
        placed_[edge.to].wait = edge.buffer ? kBuffer : kData;
      }
      if (--left_[edge.to] == 0) ripe_.emplace(ready_at_[edge.to], edge.to);
    }
  }

  // Moves the time to the next moment at which anything could start.
  bool advance() {
    double next = std::numeric_limits<double>::infinity();
    auto consider = [&](double moment) {
      if (moment > now_) next = std::min(next, moment);
    };
    for (double free : free_) consider(free);
    consider(*std::min_element(dma_free_.begin(), dma_free_.end()));
    consider(psum_free_);
    consider(sbuf_free_);
    if (!ripe_.empty()) consider(ripe_.top().first);
    if (next == std::numeric_limits<double>::infinity()) return false;
    now_ = next;
    return true;
  }

  const Program& program_;
  const Rules& rules_;
  Dependences dependences_;
  std::vector<Placed> placed_;
  std::vector<double> ready_at_;
  std::vector<int> left_;
  std::vector<double> dma_free_;
  double free_[kDma] = {};
  double psum_free_ = 0, sbuf_free_ = 0, now_ = 0;
  Ready ready_[kEngines], shared_;
  Ripe ripe_;
};

}  // namespace

std::vector<Placed> run(const Program& program, const Rules& rules) {
  return Scheduler(program, rules).run();
}

}  // namespace schedule
