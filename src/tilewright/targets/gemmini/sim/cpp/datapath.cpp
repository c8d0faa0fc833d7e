#include "datapath.hpp"

#include <cstring>
#include <stdexcept>
#include <vector>

#include "arithmetic.hpp"

// Vectors are short, and the fused multiply-add is a library call, where the compiler must suit any
// processor.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COSIM_FOR_HOST __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define COSIM_FOR_HOST
#endif

namespace cosim {
namespace {

// sums[i][j] += a[i][0] * b[0][j], then a[i][1] * b[1][j], and so on: the order in which a sum
// moves through the rows of the array, or stands in it. Row-major, `dim` elements per row.
template <typename A>
inline void multiply_rows(int dim, int rows, const typename A::Factor* a,
                          const typename A::Factor* b, typename A::Sum* sums) {
  for (int i = 0; i < rows; i++) {
    for (int k = 0; k < dim; k++) {
      const auto factor = a[i * dim + k];
      for (int j = 0; j < dim; j++) {
        sums[i * dim + j] = A::multiply_add(factor, b[k * dim + j], sums[i * dim + j]);
      }
    }
  }
}

COSIM_FOR_HOST void multiply_add_integers(int dim, int rows, const i16* a, const i16* b,
                                          i32* sums) {
  // The constants let the compiler vectorise.
  switch (dim) {
    case 4: return multiply_rows<IntegerArithmetic>(4, rows, a, b, sums);
    case 8: return multiply_rows<IntegerArithmetic>(8, rows, a, b, sums);
    case 16: return multiply_rows<IntegerArithmetic>(16, rows, a, b, sums);
    case 32: return multiply_rows<IntegerArithmetic>(32, rows, a, b, sums);
    default: return multiply_rows<IntegerArithmetic>(dim, rows, a, b, sums);
  }
}

template <int kDim>
void multiply_add(int rows, const i16* a, const i16* b, i32* sums) {
  multiply_add_integers(kDim, rows, a, b, sums);
}

COSIM_FOR_HOST void multiply_add_floats(int dim, int rows, const float* a, const float* b,
                                        float* sums) {
  switch (dim) {
    case 4: return multiply_rows<FloatArithmetic>(4, rows, a, b, sums);
    case 8: return multiply_rows<FloatArithmetic>(8, rows, a, b, sums);
    case 16: return multiply_rows<FloatArithmetic>(16, rows, a, b, sums);
    default: return multiply_rows<FloatArithmetic>(dim, rows, a, b, sums);
  }
}

template <int kDim>
void multiply_add(int rows, const float* a, const float* b, float* sums) {
  multiply_add_floats(kDim, rows, a, b, sums);
}

template <typename A, int kDim>
class TypedDatapath final : public Datapath {
  using Element = typename A::Element;
  using Factor = typename A::Factor;
  using Sum = typename A::Sum;

 public:
  explicit TypedDatapath(const Config& config)
      : scales_sums_(config.accumulator_scaled_loads != 0),
        output_bits_(config.array_output_bits),
        scratchpad_(static_cast<std::size_t>(config.scratchpad_rows()) * kDim),
        accumulator_(static_cast<std::size_t>(config.accumulator_rows()) * kDim) {
    // Power-on contents are arbitrary: a pattern shows what zeros would hide.
    for (std::size_t i = 0; i < scratchpad_.size(); i++) {
      scratchpad_[i] = static_cast<Element>(static_cast<i8>(i * 37 + 91));
    }
    for (std::size_t i = 0; i < accumulator_.size(); i++) {
      accumulator_[i] = static_cast<Sum>(static_cast<i32>(i * 2654435761u));
    }
  }

  void load_scratchpad(u32 row, const u8* source, int cols, float scale) override {
    Element* target = &scratchpad_[at(row)];
    if (!source) {
      std::fill_n(target, cols, Element{0});
    } else if (scale == 1.0f) {
      std::memcpy(target, source, static_cast<std::size_t>(cols) * sizeof(Element));
    } else {
      for (int c = 0; c < cols; c++) target[c] = A::narrow(read<Element>(source, c), scale);
    }
  }

  void load_accumulator(u32 row, const u8* source, int cols, const LoadConfig& config,
                        bool adds) override {
    Sum* target = &accumulator_[at(row)];
    for (int c = 0; c < cols; c++) {
      Sum value = 0;
      if (source && config.shrunk) {
        value = A::narrow(read<Element>(source, c), config.scale);
      } else if (source) {
        value = read<Sum>(source, c);
        if (scales_sums_ && config.scale != 1.0f) value = A::scale_sum(value, config.scale);
      }
      target[c] = adds ? A::add(target[c], value) : value;
    }
  }

  void store_scratchpad(u32 row, u8* target, int cols) const override {
    std::memcpy(target, &scratchpad_[at(row)], static_cast<std::size_t>(cols) * sizeof(Element));
  }

  void store_accumulator(u32 row, u8* target, int cols, const StoreConfig& config,
                         bool full) const override {
    const Sum* source = &accumulator_[at(row)];
    if (full) {
      std::memcpy(target, source, static_cast<std::size_t>(cols) * sizeof(Sum));
      return;
    }
    for (int c = 0; c < cols; c++) {
      const Element value = read_out(source[c], config.relu, config.scale);
      std::memcpy(target + static_cast<std::size_t>(c) * sizeof value, &value, sizeof value);
    }
  }

  void latch_weights(const Block& weights, bool relu, float scale) override {
    fetch(weights, relu, scale, weights_);
  }

  void multiply(const Product& p) override {
    const int rows = p.output_stationary ? kDim : std::max(p.result.rows, p.a.rows);
    Factor a[kDim * kDim];
    if (p.a.exists) fetch(p.a, p.relu, p.scale, a);
    if (p.output_stationary) {
      if (!p.keeps_sums) begin_sums(p, sums_);
      if (p.a.exists) {
        fetch(p.b, p.relu, p.scale, weights_);
        multiply_add<kDim>(rows, a, weights_, sums_);
      }
      write(p, sums_);
      return;
    }
    Sum sums[kDim * kDim];
    begin_sums(p, sums);
    if (p.a.exists) multiply_add<kDim>(rows, a, weights_, sums);
    write(p, sums);
  }

 private:
  static std::size_t at(u32 row) { return static_cast<std::size_t>(row) * kDim; }

  template <typename T>
  static T read(const u8* bytes, int index) {
    T value;
    std::memcpy(&value, bytes + static_cast<std::size_t>(index) * sizeof value, sizeof value);
    return value;
  }

  // A sum on its way out of the accumulator, to memory or back into the array.
  static Element read_out(Sum value, bool relu, float scale) {
    return A::narrow(relu ? A::relu(value) : value, scale);
  }

  // A block as a kDim x kDim matrix with zeros around it.
  void fetch(const Block& block, bool relu, float scale, Factor* to) const {
    std::fill_n(to, kDim * kDim, Factor{0});
    if (!block.exists) return;
    const int rows = block.transposed ? block.cols : block.rows;
    const int cols = block.transposed ? block.rows : block.cols;
    const int row_pitch = block.transposed ? 1 : kDim;
    const int col_pitch = block.transposed ? kDim : 1;
    for (int r = 0; r < rows; r++) {
      const std::size_t first = at(block.row + static_cast<u32>(r) * block.stride);
      Factor* target = to + r * row_pitch;
      for (int c = 0; c < cols; c++) {
        const std::size_t index = first + static_cast<std::size_t>(c);
        target[c * col_pitch] = block.in_accumulator
                                    ? read_out(accumulator_[index], relu, scale)
                                    : scratchpad_[index];
      }
    }
  }

  void begin_sums(const Product& p, Sum* sums) const {
    std::fill_n(sums, kDim * kDim, Sum{0});
    if (!p.bias.exists) return;
    Factor bias[kDim * kDim];
    fetch(p.bias, p.relu, p.scale, bias);
    std::copy_n(bias, kDim * kDim, sums);
  }

  void write(const Product& p, const Sum* sums) {
    if (!p.result.exists) return;
    for (int r = 0; r < p.result.rows; r++) {
      const std::size_t first = at(p.result.row + static_cast<u32>(r) * p.result.stride);
      for (int c = 0; c < p.result.cols; c++) {
        const std::size_t index = first + static_cast<std::size_t>(c);
        Sum value = sums[r * kDim + c];
        if (p.output_stationary) value = A::leave_array(value, p.shift, output_bits_);
        if (!p.result.in_accumulator) {
          scratchpad_[index] = A::narrow(p.relu ? A::relu(value) : value);
        } else {
          accumulator_[index] = p.adds ? A::add(accumulator_[index], value) : value;
        }
      }
    }
  }

  const bool scales_sums_;
  const int output_bits_;
  std::vector<Element> scratchpad_;  // [row][kDim]
  std::vector<Sum> accumulator_;     // [row][kDim]
  Factor weights_[kDim * kDim] = {};  // [k][column]: what stays in the array, weight-stationary
  Sum sums_[kDim * kDim] = {};        // what stays in it, output-stationary
};

template <typename A>
std::unique_ptr<Datapath> make_for_size(const Config& config) {
  switch (config.array_dim) {
    case 4: return std::make_unique<TypedDatapath<A, 4>>(config);
    case 8: return std::make_unique<TypedDatapath<A, 8>>(config);
    case 16: return std::make_unique<TypedDatapath<A, 16>>(config);
    case 32: return std::make_unique<TypedDatapath<A, 32>>(config);
    default: throw std::logic_error("an array size that is not modelled");
  }
}

}  // namespace

std::unique_ptr<Datapath> make_datapath(const Config& config) {
  return config.has_float_elements() ? make_for_size<FloatArithmetic>(config)
                                     : make_for_size<IntegerArithmetic>(config);
}

}  // namespace cosim
