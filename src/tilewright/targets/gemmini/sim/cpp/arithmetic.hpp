// The arithmetic of the element types that an array can be built for.
#pragma once

#include <algorithm>
#include <cmath>

#include "types.hpp"

namespace cosim {

// int8 elements, sums of 32 bits that wrap.
struct IntegerArithmetic {
  using Element = i8;
  using Factor = i16;  // an element as the multiplier takes it
  using Sum = i32;

  static Sum add(Sum a, Sum b) {
    return static_cast<Sum>(static_cast<u32>(a) + static_cast<u32>(b));
  }
  static Sum multiply_add(Factor a, Factor b, Sum sum) { return add(sum, a * b); }
  static Sum relu(Sum value) { return std::max(value, 0); }
  static Element narrow(Sum value) { return static_cast<Element>(std::clamp(value, -128, 127)); }

  // float32 scaling, rounded to the nearest even and saturated; NaN gives the largest value.
  static Element narrow(Sum value, float scale) {
    if (scale == 1.0f) return narrow(value);
    const float scaled = std::nearbyintf(static_cast<float>(value) * scale);
    if (scaled <= -128.0f) return -128;
    return scaled < 127.0f ? static_cast<Element>(scaled) : Element{127};
  }
  // Sums are loaded as they are: there is no scaler of their width.
  static Sum scale_sum(Sum value, float) { return value; }

  // A sum that stood in the array leaves it: shifted, to the nearest even, and saturated to the
  // array's output width.
  static Sum leave_array(Sum value, int shift, int bits) {
    i64 wide = value;
    if (shift > 0) {
      const i64 floor = wide >> shift;
      const i64 rest = wide - (floor << shift), half = i64{1} << (shift - 1);
      wide = floor + (rest > half || (rest == half && (floor & 1)) ? 1 : 0);
    }
    const i64 most = (i64{1} << (bits - 1)) - 1;
    return static_cast<Sum>(std::clamp(wide, -most - 1, most));
  }
};

// float32 throughout. A multiply-accumulate is fused: one rounding, to the nearest even.
struct FloatArithmetic {
  using Element = float;
  using Factor = float;
  using Sum = float;

  static Sum add(Sum a, Sum b) { return a + b; }
  static Sum multiply_add(Factor a, Factor b, Sum sum) { return std::fma(a, b, sum); }
  // As the hardware decides by the sign bit: minus zero stays.
  static Sum relu(Sum value) { return std::signbit(value) && value != 0.0f ? 0.0f : value; }
  static Element narrow(Sum value) { return value; }
  static Element narrow(Sum value, float scale) { return value * scale; }
  static Sum scale_sum(Sum value, float scale) { return value * scale; }
  static Sum leave_array(Sum value, int, int) { return value; }
};

}  // namespace cosim
