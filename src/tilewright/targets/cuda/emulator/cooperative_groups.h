/* Cooperative groups of one block: the block, tiles of a warp, the threads of a warp that are at one place together,
   and what they reduce. Grids and clusters are not here. Types are as large as CUDA's. */
#pragma once
#include "device.h"

namespace cooperative_groups {

class thread_block {
  uint64_t tw_rest[3];

 public:
  thread_block() = default;
  static void sync(int line = __builtin_LINE()) { tw_barrier(line); }
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return thread_block(); }
inline void sync(const thread_block &, int line = __builtin_LINE()) { tw_barrier(line); }

template <class Parent> struct tw_rest_of_a_tile {};
template <> struct tw_rest_of_a_tile<void> { uint64_t tw_rest[2]; };
template <unsigned Size, class Parent = void> class thread_block_tile : tw_rest_of_a_tile<Parent> {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile is a part of one warp");

 public:
  thread_block_tile() = default;
  template <class Other> thread_block_tile(const thread_block_tile<Size, Other> &) {}
  static unsigned mask() { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << (tw_lane() & ~(Size - 1)); }
  static unsigned thread_rank() { return tw_lane() & (Size - 1); }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  static void sync(int line = __builtin_LINE()) { __syncwarp(mask(), line); }
  template <class T> static T shfl(T value, int source, int line = __builtin_LINE()) { return __shfl_sync(mask(), value, source, Size, line); }
  template <class T> static T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) { return __shfl_up_sync(mask(), value, delta, Size, line); }
  template <class T> static T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) { return __shfl_down_sync(mask(), value, delta, Size, line); }
  template <class T> static T shfl_xor(T value, unsigned lanes, int line = __builtin_LINE()) { return __shfl_xor_sync(mask(), value, lanes, Size, line); }
  static unsigned ballot(int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask(), predicate, line) >> (tw_lane() & ~(Size - 1)); }
  static int any(int predicate, int line = __builtin_LINE()) { return __any_sync(mask(), predicate, line); }
  static int all(int predicate, int line = __builtin_LINE()) { return __all_sync(mask(), predicate, line); }
  template <class T> static unsigned match_any(T value, int line = __builtin_LINE()) {
    return __match_any_sync(mask(), value, line) >> (tw_lane() & ~(Size - 1));
  }
};
template <unsigned Size, class Parent> inline thread_block_tile<Size, Parent> tiled_partition(const Parent &) { return thread_block_tile<Size, Parent>(); }

class coalesced_group {
  uint64_t tw_rest;
  unsigned members;
  static unsigned at(unsigned mask, unsigned rank) {  /* the lane of the thread with this rank */
    while (rank--) mask &= mask - 1;
    return mask ? __builtin_ctz(mask) : tw_lane();
  }
  unsigned packed(unsigned lanes) const {
    unsigned ranks = 0, rank = 0;
    for (unsigned l = 0; l < 32; l++)
      if (members >> l & 1) ranks |= (lanes >> l & 1) << rank++;
    return ranks;
  }

 public:
  explicit coalesced_group(unsigned mask) : members(mask) {}
  unsigned thread_rank() const { return __builtin_popcount(members & ((1u << tw_lane()) - 1)); }
  unsigned size() const { return __builtin_popcount(members); }
  unsigned num_threads() const { return size(); }
  void sync(int line = __builtin_LINE()) const { __syncwarp(members, line); }
  template <class T> T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
    return __shfl_sync(members, value, at(members, rank % size()), 32, line);
  }
  template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    unsigned rank = thread_rank();
    return shfl(value, rank >= delta ? rank - delta : rank, line);
  }
  template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    unsigned rank = thread_rank();
    return shfl(value, rank + delta < size() ? rank + delta : rank, line);
  }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const { return packed(__ballot_sync(members, predicate, line)); }
  int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(members, predicate, line); }
  int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(members, predicate, line); }
  template <class T> unsigned match_any(T value, int line = __builtin_LINE()) const {
    return packed(__match_any_sync(members, value, line));
  }
};
inline coalesced_group coalesced_threads(int line = __builtin_LINE()) { return coalesced_group(tw_active(line)); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };
template <unsigned Size, class Parent, class T, class Operation>
inline T reduce(const thread_block_tile<Size, Parent> &tile, T value, Operation operation, int line = __builtin_LINE()) {
  for (unsigned step = Size / 2; step; step /= 2) value = operation(value, tile.shfl_xor(value, step, line));
  return value;
}
template <class T, class Operation>
inline T reduce(const coalesced_group &group, T value, Operation operation, int line = __builtin_LINE()) {
  T all = group.shfl(value, 0, line);
  for (unsigned rank = 1; rank < group.size(); rank++) all = operation(all, group.shfl(value, rank, line));
  return all;
}
}  // namespace cooperative_groups
