// Integer names used throughout the simulator.
#pragma once

#include <cstdint>

namespace cosim {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// A point in simulated time, in accelerator clock cycles since the start of the measured part.
using Cycle = u64;

}  // namespace cosim
