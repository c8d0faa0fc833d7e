// Which earlier instructions an instruction must wait for, by the ranges they read and write.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "program.hpp"

namespace schedule {

// Edges from each instruction to those that wait for it; `buffer` marks waits for a buffer's
// readers rather than for a result.
struct Edge {
  int to;
  bool buffer;
};

class Dependences {
 public:
  explicit Dependences(const Program& program);

  const std::vector<Edge>& users(int instruction) const { return users_[instruction]; }
  int count(int instruction) const { return counts_[instruction]; }

 private:
  struct Segment {
    int64_t high;
    int writer;
    std::vector<int> readers;
  };
  // Segments of one quarter of a tensor's partitions, by their first byte; they do not overlap.
  using Region = std::map<int64_t, Segment>;

  void touch(Region& region, const Access& access, int instruction);
  void reuse(const Program& program, const std::vector<std::vector<int>>& users_of, int tensor,
             int instruction);
  void wait(int earlier, int later, bool buffer);
  static void cut(Region& region, int64_t at);

  std::vector<std::vector<Edge>> users_;
  std::vector<int> counts_;
};

}  // namespace schedule
