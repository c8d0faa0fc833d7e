// The accelerator's commands: RoCC functs and the fields packed into rs1 and rs2.
#pragma once

#include <cstring>

#include "types.hpp"

namespace cosim {

enum Funct : u8 {
  kConfig = 0,
  kMvin2 = 1,
  kMvin = 2,
  kMvout = 3,
  kComputePreloaded = 4,
  kComputeAccumulated = 5,
  kPreload = 6,
  kFlush = 7,
  kMvin3 = 14,
};

enum ConfigTarget : u8 { kConfigExecute = 0, kConfigLoad = 1, kConfigStore = 2 };

inline bool is_mvin(u8 funct) { return funct == kMvin || funct == kMvin2 || funct == kMvin3; }
inline bool is_compute(u8 funct) {
  return funct == kComputePreloaded || funct == kComputeAccumulated;
}
inline u8 config_target(u64 rs1) { return rs1 & 3; }
// The load configuration a move-in uses: 0, 1 or 2 for mvin, mvin2 and mvin3.
inline int load_id(u8 funct) { return funct == kMvin ? 0 : funct == kMvin2 ? 1 : 2; }

inline float float_from_bits(u32 bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A row of the scratchpad or accumulator, with the flags carried in the upper bits.
struct LocalAddress {
  u32 bits = 0;

  static constexpr u32 kNone = 0xffffffffu;
  bool is_none() const { return bits == kNone; }
  bool in_accumulator() const { return bits >> 31; }
  bool accumulates() const { return (bits >> 30) & 1; }
  bool reads_full() const { return (bits >> 29) & 1; }
  u32 row() const { return bits & 0x1fffffffu; }
  bool is_same_row(LocalAddress other) const {
    return !is_none() && !other.is_none() && in_accumulator() == other.in_accumulator() &&
           row() == other.row();
  }
};

// rs2 of a move, and both registers of preload and compute: address, columns, rows.
struct Tile {
  LocalAddress address;
  int cols = 0;
  int rows = 0;
};

inline Tile unpack_tile(u64 packed) {
  return {{static_cast<u32>(packed)},
          static_cast<int>((packed >> 32) & 0xffff),
          static_cast<int>(packed >> 48)};
}

struct ExecuteConfig {
  bool weight_stationary = true;
  bool relu = false;
  bool strides_only = false;
  bool a_transposed = false;
  bool b_transposed = false;
  u32 a_stride = 1;
  u32 c_stride = 1;
  float scale = 1.0f;  // of operands that come from the accumulator
  int shift = 0;       // to the right, of sums that leave the array (output-stationary)

  // The array has one transposer. Output-stationary, A needs it unless it is transposed.
  bool transposes_a() const { return weight_stationary ? a_transposed : !a_transposed; }
  int transposed_operands() const { return transposes_a() + b_transposed; }
};

inline ExecuteConfig unpack_execute_config(u64 rs1, u64 rs2) {
  ExecuteConfig config;
  config.weight_stationary = (rs1 >> 2) & 1;
  config.relu = ((rs1 >> 3) & 3) == 1;
  config.strides_only = (rs1 >> 7) & 1;
  config.a_transposed = (rs1 >> 8) & 1;
  config.b_transposed = (rs1 >> 9) & 1;
  config.a_stride = (rs1 >> 16) & 0xffff;
  config.c_stride = static_cast<u32>(rs2 >> 48);
  config.scale = float_from_bits(static_cast<u32>(rs1 >> 32));
  config.shift = static_cast<int>(rs2 & 0x1f);
  return config;
}

struct LoadConfig {
  u64 stride = 0;       // bytes between rows in DRAM
  float scale = 1.0f;
  int block_stride = 0; // local rows between blocks of dim columns
  bool shrunk = false;  // int8 elements into the accumulator
};

// A configuration that sets strides only keeps the rest of the previous one.
inline ExecuteConfig merge_execute_config(u64 rs1, u64 rs2, const ExecuteConfig& previous) {
  const ExecuteConfig given = unpack_execute_config(rs1, rs2);
  if (!given.strides_only) return given;
  ExecuteConfig merged = previous;
  merged.a_stride = given.a_stride;
  merged.c_stride = given.c_stride;
  return merged;
}

inline int load_config_id(u64 rs1) { return (rs1 >> 3) & 3; }

inline LoadConfig unpack_load_config(u64 rs1, u64 rs2) {
  return {rs2, float_from_bits(static_cast<u32>(rs1 >> 32)), static_cast<int>((rs1 >> 16) & 0xffff),
          ((rs1 >> 2) & 1) != 0};
}

struct StoreConfig {
  u64 stride = 0;
  float scale = 1.0f;
  bool relu = false;
};

// A scale of all ones keeps the previous one.
inline StoreConfig unpack_store_config(u64 rs1, u64 rs2, const StoreConfig& previous) {
  const u32 scale = static_cast<u32>(rs2 >> 32);
  return {rs2 & 0xffffffffu, scale == 0xffffffffu ? previous.scale : float_from_bits(scale),
          ((rs1 >> 2) & 3) == 1};
}

}  // namespace cosim
