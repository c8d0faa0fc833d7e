// Arithmetic runs on the host's IEEE unit under the requested rounding mode; this file is
// compiled with -frounding-math so that the compiler does not move it across mode changes.
#include "float_unit.hpp"

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#include "fault.hpp"

namespace cosim {
namespace {

constexpr u32 kInvalid = 16;
constexpr u32 kInexact = 1;
constexpr u32 kNearestAway = 4;  // rm value RMM
constexpr u32 kDynamic = 7;

template <typename T>
struct Format;
template <>
struct Format<float> {
  using Bits = u32;
  static constexpr u32 kCanonicalNan = 0x7fc00000u;
  static constexpr u32 kQuietBit = 0x00400000u;
  static constexpr u32 kSign = 0x80000000u;
};
template <>
struct Format<double> {
  using Bits = u64;
  static constexpr u64 kCanonicalNan = 0x7ff8000000000000ull;
  static constexpr u64 kQuietBit = 0x0008000000000000ull;
  static constexpr u64 kSign = 0x8000000000000000ull;
};
template <typename T>
using BitsOf = typename Format<T>::Bits;

template <typename T>
BitsOf<T> to_bits(T value) {
  BitsOf<T> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <typename T>
T from_bits(BitsOf<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The bits a register holds as format T: a single that is not NaN-boxed reads as NaN.
template <typename T>
BitsOf<T> unbox(u64 reg) {
  if constexpr (sizeof(T) == 8) {
    return reg;
  } else {
    return (reg >> 32) == 0xffffffffu ? static_cast<u32>(reg) : Format<float>::kCanonicalNan;
  }
}

template <typename T>
u64 box(BitsOf<T> bits) {
  if constexpr (sizeof(T) == 8) {
    return bits;
  } else {
    return 0xffffffff00000000ull | bits;
  }
}

template <typename T>
bool is_signalling(T value) {
  return std::isnan(value) && !(to_bits(value) & Format<T>::kQuietBit);
}

u32 host_flags() {
  const int raised = std::fetestexcept(FE_ALL_EXCEPT);
  return (raised & FE_INEXACT ? 1u : 0) | (raised & FE_UNDERFLOW ? 2u : 0) |
         (raised & FE_OVERFLOW ? 4u : 0) | (raised & FE_DIVBYZERO ? 8u : 0) |
         (raised & FE_INVALID ? 16u : 0);
}

int host_rounding(u32 mode) {
  switch (mode) {
    case 0: return FE_TONEAREST;
    case 1: return FE_TOWARDZERO;
    case 2: return FE_DOWNWARD;
    case 3: return FE_UPWARD;
    default: throw_fault(FaultKind::illegal_instruction, "rounding mode %u is not modelled", mode);
  }
}

// Holds the host's rounding mode for one operation and collects the flags it raised.
class HostRounding {
 public:
  HostRounding(u32 mode, FloatState& state) : state_(state), mode_(host_rounding(mode)) {
    std::feclearexcept(FE_ALL_EXCEPT);
    if (mode_ != FE_TONEAREST) std::fesetround(mode_);
  }
  ~HostRounding() {
    state_.flags |= host_flags();
    if (mode_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  FloatState& state_;
  int mode_;
};

// Keeps a value where the compiler cannot compute with it ahead of time.
template <typename T>
T opaque(T value) {
  volatile T copy = value;
  return copy;
}

template <typename T>
BitsOf<T> canonical(T value) {
  return std::isnan(value) ? Format<T>::kCanonicalNan : to_bits(value);
}

template <typename T>
BitsOf<T> arithmetic(Op op, T a, T b, u32 mode, FloatState& state) {
  HostRounding rounding(mode, state);
  a = opaque(a);
  b = opaque(b);
  switch (op) {
    case Op::fadd_s: return canonical<T>(opaque(a + b));
    case Op::fsub_s: return canonical<T>(opaque(a - b));
    case Op::fmul_s: return canonical<T>(opaque(a * b));
    case Op::fdiv_s: return canonical<T>(opaque(a / b));
    default: return canonical<T>(opaque(static_cast<T>(std::sqrt(a))));
  }
}

template <typename T>
BitsOf<T> fused(Op op, T a, T b, T c, u32 mode, FloatState& state) {
  const bool zero_times_infinity = (a == 0 && std::isinf(b)) || (std::isinf(a) && b == 0);
  if (op == Op::fnmsub_s || op == Op::fnmadd_s) a = -a;
  if (op == Op::fmsub_s || op == Op::fnmadd_s) c = -c;
  if (zero_times_infinity) state.flags |= kInvalid;
  HostRounding rounding(mode, state);
  return canonical<T>(opaque(std::fma(opaque(a), opaque(b), opaque(c))));
}

template <typename T>
BitsOf<T> minimum_maximum(bool wants_maximum, T a, T b, FloatState& state) {
  if (is_signalling(a) || is_signalling(b)) state.flags |= kInvalid;
  if (std::isnan(a) && std::isnan(b)) return Format<T>::kCanonicalNan;
  if (std::isnan(a)) return to_bits(b);
  if (std::isnan(b)) return to_bits(a);
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return to_bits(a_is_less != wants_maximum ? a : b);
}

template <typename T>
u64 compare(Op op, T a, T b, FloatState& state) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  if (unordered) {
    const bool quiet = op == Op::feq_s && !is_signalling(a) && !is_signalling(b);
    if (!quiet) state.flags |= kInvalid;
    return 0;
  }
  return op == Op::feq_s ? a == b : op == Op::flt_s ? a < b : a <= b;
}

template <typename T>
u64 classify(T value) {
  const bool negative = std::signbit(value);
  switch (std::fpclassify(value)) {
    case FP_NAN: return is_signalling(value) ? 1u << 8 : 1u << 9;
    case FP_INFINITE: return negative ? 1u << 0 : 1u << 7;
    case FP_NORMAL: return negative ? 1u << 1 : 1u << 6;
    case FP_SUBNORMAL: return negative ? 1u << 2 : 1u << 5;
    default: return negative ? 1u << 3 : 1u << 4;
  }
}

template <typename T>
T round_to_integral(T value, u32 mode) {
  switch (mode) {
    case 0: return std::nearbyint(value);  // the host rounds to nearest even here
    case 1: return std::trunc(value);
    case 2: return std::floor(value);
    case 3: return std::ceil(value);
    case kNearestAway: return std::round(value);
    default: throw_fault(FaultKind::illegal_instruction, "rounding mode %u is reserved", mode);
  }
}

// Conversion to a 32- or 64-bit integer, saturating, with NaN as the largest value.
template <typename T, typename Integer>
u64 to_integer(T value, u32 mode, FloatState& state) {
  using Limits = std::numeric_limits<Integer>;
  const T low = static_cast<T>(Limits::min());
  const T high = std::ldexp(T(1), Limits::digits);  // first value that is too large
  const T rounded = round_to_integral(value, mode);
  Integer result;
  if (std::isnan(value) || rounded >= high) {
    result = Limits::max();
    state.flags |= kInvalid;
  } else if (rounded < low) {
    result = Limits::min();
    state.flags |= kInvalid;
  } else {
    result = static_cast<Integer>(rounded);
    if (rounded != value) state.flags |= kInexact;
  }
  if constexpr (sizeof(Integer) == 4) {
    return static_cast<u64>(static_cast<i64>(static_cast<i32>(result)));
  } else {
    return static_cast<u64>(result);
  }
}

template <typename T, typename Integer>
u64 from_integer(u64 value, u32 mode, FloatState& state) {
  HostRounding rounding(mode, state);
  return box<T>(to_bits<T>(opaque(static_cast<T>(opaque(static_cast<Integer>(value))))));
}

template <typename To, typename From>
u64 change_precision(From value, u32 mode, FloatState& state) {
  HostRounding rounding(mode, state);
  return box<To>(canonical<To>(opaque(static_cast<To>(opaque(value)))));
}

// The single-precision form of an operation stands for both precisions.
Op precision_free(Op op, bool is_double) {
  const int distance = static_cast<int>(Op::fadd_d) - static_cast<int>(Op::fadd_s);
  return is_double ? static_cast<Op>(static_cast<int>(op) - distance) : op;
}

template <typename T>
BitsOf<T> inject_sign(Op op, BitsOf<T> a, BitsOf<T> b) {
  const BitsOf<T> sign = op == Op::fsgnj_s ? b : op == Op::fsgnjn_s ? ~b : a ^ b;
  return static_cast<BitsOf<T>>((a & ~Format<T>::kSign) | (sign & Format<T>::kSign));
}

// Raw register moves: the value's bits, sign-extended from 32.
template <typename T>
u64 move_to_integer(u64 reg) {
  if constexpr (sizeof(T) == 8) {
    return reg;
  } else {
    return static_cast<u64>(static_cast<i64>(static_cast<i32>(reg)));
  }
}

template <typename T>
void execute(Op op, const Instruction& in, u64 (&x)[32], FloatState& state) {
  const u32 mode = in.rounding == kDynamic ? state.rounding : in.rounding;
  const BitsOf<T> a_bits = unbox<T>(state.f[in.rs1]);
  const BitsOf<T> b_bits = unbox<T>(state.f[in.rs2]);
  const T a = from_bits<T>(a_bits);
  const T b = from_bits<T>(b_bits);
  u64& f = state.f[in.rd];
  u64 integer = 0;
  switch (op) {
    case Op::fmadd_s: case Op::fmsub_s: case Op::fnmsub_s: case Op::fnmadd_s: {
      const T c = from_bits<T>(unbox<T>(state.f[in.rs3]));
      f = box<T>(fused<T>(op, a, b, c, mode, state));
      return;
    }
    case Op::fadd_s: case Op::fsub_s: case Op::fmul_s: case Op::fdiv_s: case Op::fsqrt_s:
      f = box<T>(arithmetic<T>(op, a, b, mode, state));
      return;
    case Op::fsgnj_s: case Op::fsgnjn_s: case Op::fsgnjx_s:
      f = box<T>(inject_sign<T>(op, a_bits, b_bits));
      return;
    case Op::fmin_s: f = box<T>(minimum_maximum<T>(false, a, b, state)); return;
    case Op::fmax_s: f = box<T>(minimum_maximum<T>(true, a, b, state)); return;
    case Op::fcvt_s_w: f = from_integer<T, i32>(x[in.rs1], mode, state); return;
    case Op::fcvt_s_wu: f = from_integer<T, u32>(x[in.rs1], mode, state); return;
    case Op::fcvt_s_l: f = from_integer<T, i64>(x[in.rs1], mode, state); return;
    case Op::fcvt_s_lu: f = from_integer<T, u64>(x[in.rs1], mode, state); return;
    case Op::fmv_w_x: f = box<T>(static_cast<BitsOf<T>>(x[in.rs1])); return;
    case Op::fcvt_w_s: integer = to_integer<T, i32>(a, mode, state); break;
    case Op::fcvt_wu_s: integer = to_integer<T, u32>(a, mode, state); break;
    case Op::fcvt_l_s: integer = to_integer<T, i64>(a, mode, state); break;
    case Op::fcvt_lu_s: integer = to_integer<T, u64>(a, mode, state); break;
    case Op::fmv_x_w: integer = move_to_integer<T>(state.f[in.rs1]); break;
    case Op::fclass_s: integer = classify<T>(a); break;
    default: integer = compare<T>(op, a, b, state); break;
  }
  if (in.rd != 0) x[in.rd] = integer;
}

}  // namespace

void execute_float(const Instruction& in, u64 (&x)[32], FloatState& state) {
  const u32 mode = in.rounding == kDynamic ? state.rounding : in.rounding;
  if (in.op == Op::fcvt_s_d) {
    state.f[in.rd] = change_precision<float>(from_bits<double>(state.f[in.rs1]), mode, state);
  } else if (in.op == Op::fcvt_d_s) {
    const float value = from_bits<float>(unbox<float>(state.f[in.rs1]));
    state.f[in.rd] = change_precision<double>(value, 0, state);
  } else if (in.op >= Op::fmadd_d) {
    execute<double>(precision_free(in.op, true), in, x, state);
  } else {
    execute<float>(in.op, in, x, state);
  }
}

}  // namespace cosim
