#include "branch_predictor.hpp"

namespace cosim {
namespace {

// As every configuration of Rocket in the public generators has them (BHTParams' defaults).
constexpr u64 kPacketBytes = 4;  // fetched at once
constexpr u32 kHistoryBits = 8;
constexpr u32 kHashedBits = 3;
constexpr u32 kHashFactor = 221;  // sqrt(3) / 2 of 2^8: the RTL's hash of the history

}  // namespace

BranchPredictor::BranchPredictor(const Config& config)
    : targets_(static_cast<std::size_t>(config.cpu_branch_targets)),
      directions_(static_cast<std::size_t>(config.cpu_branch_directions)),
      return_capacity_(static_cast<std::size_t>(config.cpu_return_addresses)) {}

// Directions are single bits, chosen by address and recent outcomes. The word after a branch's is
// looked up before the branch is known to be one: it sees the history without it.
Redirect BranchPredictor::branch(u64 packet, bool is_taken, bool is_fetch_bound) {
  const u32 history = packet == last_branch_ + kPacketBytes ? older_history_ : history_;
  u8& direction = directions_[index(packet, history)];
  const bool is_predicted_taken = direction != 0;
  direction = is_taken;
  last_branch_ = packet;
  older_history_ = history_;
  const u32 newest = is_taken ? 1u << (kHistoryBits - 1) : 0;
  if (is_predicted_taken != is_taken) {
    history_ = newest | history >> 1;
    if (is_taken) keep(packet, 0);
    return Redirect::resolved;
  }
  history_ = newest | history_ >> 1;
  if (!is_taken) return Redirect::none;
  return decoded_target(packet, is_fetch_bound);
}

Redirect BranchPredictor::jump(u64 packet, bool is_fetch_bound) {
  return decoded_target(packet, is_fetch_bound);
}

// The target of a direct jump or branch is in the instruction: without an entry the jump is found
// when it is decoded.
Redirect BranchPredictor::decoded_target(u64 packet, bool is_fetch_bound) {
  if (Target* known = find(packet)) {
    known->used = ++uses_;
    return Redirect::none;
  }
  if (is_fetch_bound) keep(packet, 0);
  return Redirect::decoded;
}

Redirect BranchPredictor::jump_register(u64 packet, u64 target, bool is_return,
                                        bool is_fetch_bound) {
  Target* known = find(packet);
  bool is_right = known && known->target == target;
  if (is_return && !returns_.empty()) {
    is_right = returns_.back() == target;
    returns_.pop_back();
    if (is_right && !known) {
      if (is_fetch_bound) keep(packet, target);
      return Redirect::decoded;
    }
  }
  if (!is_right) {
    keep(packet, target);
    return Redirect::resolved;
  }
  known->used = ++uses_;
  return Redirect::none;
}

void BranchPredictor::call(u64 return_address) {
  if (returns_.size() == return_capacity_) returns_.erase(returns_.begin());
  returns_.push_back(return_address);
}

std::size_t BranchPredictor::index(u64 packet, u32 history) const {
  const u64 entries = directions_.size();
  u64 bits = 0;
  while ((1ull << bits) < entries) bits++;
  const u64 word = packet / kPacketBytes;
  const u64 hashed = (kHashFactor * history & ((1u << kHistoryBits) - 1)) >>
                     (kHistoryBits - kHashedBits);
  return ((word ^ (word >> bits & 3)) & (entries - 1)) ^ (hashed << (bits - kHashedBits));
}

BranchPredictor::Target* BranchPredictor::find(u64 packet) {
  for (Target& target : targets_) {
    if (target.packet == packet) return &target;
  }
  return nullptr;
}

// The least recently used entry gives way.
void BranchPredictor::keep(u64 packet, u64 target) {
  Target* entry = find(packet);
  if (!entry) {
    entry = &targets_[0];
    for (Target& other : targets_) {
      if (other.used < entry->used) entry = &other;
    }
  }
  *entry = {packet, target, ++uses_};
}

}  // namespace cosim
