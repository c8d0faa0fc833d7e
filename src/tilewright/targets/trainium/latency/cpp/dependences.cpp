#include "dependences.hpp"

#include <algorithm>
#include <array>

namespace schedule {

Dependences::Dependences(const Program& program)
    : users_(program.instructions.size()), counts_(program.instructions.size(), 0) {
  std::vector<std::array<Region, 4>> regions(program.previous.size());
  std::vector<std::vector<int>> users_of(program.previous.size());
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (int a = instruction.first_access; a < instruction.last_access; ++a) {
      const Access& access = program.accesses[a];
      std::vector<int>& users = users_of[access.tensor];
      if (users.empty()) reuse(program, users_of, access.tensor, i);
      if (users.empty() || users.back() != i) users.push_back(i);
    }
    // What is read is looked up before what the instruction itself writes.
    for (uint8_t kind : {kRead, kWrite}) {
      for (int a = instruction.first_access; a < instruction.last_access; ++a) {
        Access access = program.accesses[a];
        if (!(access.kind & kind)) continue;
        access.kind = kind;
        for (int q = 0; q < 4; ++q) {
          if (access.quarters & (1 << q)) touch(regions[access.tensor][q], access, i);
        }
      }
    }
  }
}

void Dependences::reuse(const Program& program, const std::vector<std::vector<int>>& users_of,
                        int tensor, int instruction) {
  const int previous = program.previous[tensor];
  if (previous < 0) return;
  for (int user : users_of[previous]) wait(user, instruction, true);
}

void Dependences::touch(Region& region, const Access& access, int i) {
  cut(region, access.low);
  cut(region, access.high);
  int64_t at = access.low;
  auto it = region.lower_bound(access.low);
  while (at < access.high) {
    if (it == region.end() || it->first > at) {  // never touched: a new segment fills the gap
      const int64_t high = it == region.end() ? access.high : std::min(it->first, access.high);
      it = region.emplace_hint(it, at, Segment{high, -1, {}});
    }
    Segment& segment = it->second;
    if (access.kind == kRead) {
      if (segment.writer >= 0) wait(segment.writer, i, false);
      if (segment.readers.empty() || segment.readers.back() != i) segment.readers.push_back(i);
    } else {
      for (int reader : segment.readers) wait(reader, i, true);
      if (segment.readers.empty() && segment.writer >= 0) wait(segment.writer, i, true);
      segment.writer = i;
      segment.readers.clear();
    }
    at = segment.high;
    ++it;
  }
}

// Splits the segment that holds byte `at` in its middle.
void Dependences::cut(Region& region, int64_t at) {
  auto it = region.upper_bound(at);
  if (it == region.begin()) return;
  --it;
  if (it->first == at || it->second.high <= at) return;
  Segment rest = it->second;
  it->second.high = at;
  region.emplace(at, std::move(rest));
}

void Dependences::wait(int earlier, int later, bool buffer) {
  if (earlier == later) return;
  std::vector<Edge>& users = users_[earlier];
  if (!users.empty() && users.back().to == later) {
    users.back().buffer = users.back().buffer && buffer;
    return;
  }
  users.push_back({later, buffer});
  ++counts_[later];
}

}  // namespace schedule
