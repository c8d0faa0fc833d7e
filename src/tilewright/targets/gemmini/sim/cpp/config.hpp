// Every parameter of the simulated machine. Filled from target.toml, which documents each one;
// the model itself holds no numbers.
#pragma once

#include <algorithm>

namespace cosim {

// Fields are named SECTION_KEY after target.toml's [simulator.SECTION] tables.
#define COSIM_CONFIG_FIELDS(FIELD)      \
  FIELD(array_dim)                      \
  FIELD(array_element_type)             \
  FIELD(array_output_bits)              \
  FIELD(array_tile_latency)             \
  FIELD(array_input_delay)              \
  FIELD(array_output_delay)             \
  FIELD(array_drain_cycles)             \
  FIELD(array_flush_cycles)             \
  FIELD(array_minimum_rows)             \
  FIELD(scratchpad_banks)               \
  FIELD(scratchpad_bank_rows)           \
  FIELD(scratchpad_read_delay)          \
  FIELD(accumulator_element_type)       \
  FIELD(accumulator_scaled_loads)       \
  FIELD(accumulator_banks)              \
  FIELD(accumulator_bank_rows)          \
  FIELD(accumulator_scale_latency)      \
  FIELD(accumulator_held_rows)          \
  FIELD(commands_load_entries)          \
  FIELD(commands_execute_entries)       \
  FIELD(commands_store_entries)         \
  FIELD(commands_load_queue)            \
  FIELD(commands_execute_queue)         \
  FIELD(commands_store_queue)           \
  FIELD(commands_unroller_entries)      \
  FIELD(commands_loop_queue)            \
  FIELD(commands_convolution_latency)   \
  FIELD(commands_front_queues)          \
  FIELD(dma_bus_bytes)                  \
  FIELD(dma_max_request_bytes)          \
  FIELD(dma_in_flight)                  \
  FIELD(dma_issue_latency)              \
  FIELD(dma_write_latency)              \
  FIELD(dma_store_rows)                 \
  FIELD(dma_read_latency)               \
  FIELD(dma_store_latency)              \
  FIELD(dma_scale_lanes)                \
  FIELD(dma_scale_latency)              \
  FIELD(l2_bytes)                       \
  FIELD(l2_ways)                        \
  FIELD(l2_line_bytes)                  \
  FIELD(l2_hit_latency)                 \
  FIELD(l2_mshrs)                       \
  FIELD(l2_permission_latency)          \
  FIELD(l2_store_miss_cycles)           \
  FIELD(l2_release_latency)             \
  FIELD(l2_release_cycles)              \
  FIELD(l2_probe_latency)               \
  FIELD(dram_latency)                   \
  FIELD(dram_line_cycles)               \
  FIELD(cpu_replay)                     \
  FIELD(cpu_branch_miss)                \
  FIELD(cpu_fence_latency)              \
  FIELD(cpu_load_use)                   \
  FIELD(cpu_multiply_bits)              \
  FIELD(cpu_float_use)                  \
  FIELD(cpu_float_divide)               \
  FIELD(cpu_fetch_queue)                \
  FIELD(cpu_branch_targets)             \
  FIELD(cpu_branch_directions)          \
  FIELD(cpu_return_addresses)           \
  FIELD(cpu_l1_bytes)                   \
  FIELD(cpu_l1_ways)                    \
  FIELD(cpu_l1_refill)                  \
  FIELD(cpu_fetch_refill)

// Values of array_element_type and accumulator_element_type.
enum ElementType : int { kInt8 = 0, kFp32 = 1, kInt32 = 2 };

inline int bytes_of(int element_type) { return element_type == kInt8 ? 1 : 4; }

struct Config {
#define COSIM_DECLARE(name) int name = 0;
  COSIM_CONFIG_FIELDS(COSIM_DECLARE)
#undef COSIM_DECLARE

  bool has_float_elements() const { return array_element_type == kFp32; }
  // Of one element in the scratchpad and in the accumulator, and of a local row of each.
  int element_bytes() const { return bytes_of(array_element_type); }
  int sum_bytes() const { return bytes_of(accumulator_element_type); }
  int scratchpad_row_bytes() const { return array_dim * element_bytes(); }
  int accumulator_row_bytes() const { return array_dim * sum_bytes(); }

  // Blocks of dim columns in one move: as many as the largest request holds, or one.
  int max_blocks() const { return std::max(dma_max_request_bytes / scratchpad_row_bytes(), 1); }

  int scratchpad_rows() const { return scratchpad_banks * scratchpad_bank_rows; }
  int accumulator_rows() const { return accumulator_banks * accumulator_bank_rows; }
};

}  // namespace cosim
