#include "sequences.hpp"

#include <algorithm>

namespace cosim {
namespace {

u64 mixed(u64 hash, u64 value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

// Whether no further call can make anything the same in all calls.
bool have_nothing_in_common(const CallRecord& one, const CallRecord& other) {
  if (one.results.all != 0 && !one.results.differs(other.results)) return false;
  for (std::size_t i = 0; i < one.values.size(); i++) {
    if (one.values[i].all != 0 && !one.values[i].differs(other.values[i])) return false;
  }
  return true;
}

}  // namespace

void Sequence::add(u64 value) {
  const u64 one = mixed(1, value) | 1;
  only = all == 0 || only == one ? one : 0;
  all = mixed(all, one) | 1;
}

bool Sequence::differs(const Sequence& other) const {
  return all != other.all && (only == 0 || only != other.only);
}

void Condition::record(u64 call, const std::array<Operand, 3>& operands,
                       std::optional<u64> result) {
  is_on_data = true;
  if (is_settled) return;
  if (calls.empty() || calls.back().call != call) {
    const std::size_t count = calls.size();
    is_settled = count > 1 && have_nothing_in_common(calls[count - 2], calls[count - 1]);
    if (is_settled) return;
    calls.push_back({call, {}, {}, {}});
  }
  CallRecord& record = calls.back();
  u64 read = 0;
  for (std::size_t i = 0; i < operands.size(); i++) {
    if (!operands[i].is_data) continue;
    read = mixed(read, operands[i].value);
    if (operands[i].producer == 0) continue;
    record.values[i].add(operands[i].value);
    std::vector<u64>& known = producers[i];
    if (std::find(known.begin(), known.end(), operands[i].producer) == known.end()) {
      known.push_back(operands[i].producer);
    }
  }
  if (!result) return;
  record.operands.add(read);
  record.results.add(*result);
}

}  // namespace cosim
