#include "datapath.hpp"

#include <cstring>
#include <stdexcept>
#include <vector>

#include "arithmetic.hpp"
#include "multiply.hpp"

namespace cosim {
namespace {

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
    if (!source && !adds) {
      std::fill_n(target, cols, Sum{0});
      return;
    }
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
    Element values[kDim];
    if (config.relu || config.scale != 1.0f) {
      for (int c = 0; c < cols; c++) values[c] = read_out(source[c], config.relu, config.scale);
    } else {
      for_columns(cols, [&](int c) { values[c] = A::narrow(source[c]); });
    }
    std::memcpy(target, values, static_cast<std::size_t>(cols) * sizeof(Element));
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
        multiply_add(kDim, rows, a, weights_, sums_);
      }
      write(p, sums_);
      return;
    }
    Sum sums[kDim * kDim];
    begin_sums(p, sums);
    if (p.a.exists) multiply_add(kDim, rows, a, weights_, sums);
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

  // Most blocks are as wide as the array: with a constant, the compiler vectorises.
  template <typename F>
  static void for_columns(int cols, F f) {
    if (cols == kDim) {
      for (int c = 0; c < kDim; c++) f(c);
    } else {
      for (int c = 0; c < cols; c++) f(c);
    }
  }

  // A block as a kDim x kDim matrix with zeros around it.
  void fetch(const Block& block, bool relu, float scale, Factor* __restrict to) const {
    if (block.exists && !block.transposed && !block.in_accumulator && block.cols == kDim) {
      for (int r = 0; r < block.rows; r++) {
        const Element* row = &scratchpad_[at(block.row + static_cast<u32>(r) * block.stride)];
        for (int c = 0; c < kDim; c++) to[r * kDim + c] = row[c];
      }
      std::fill(to + block.rows * kDim, to + kDim * kDim, Factor{0});
      return;
    }
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
      const Sum* row = sums + r * kDim;
      Sum left[kDim];
      if (p.output_stationary) {
        for (int c = 0; c < p.result.cols; c++) {
          left[c] = A::leave_array(row[c], p.shift, output_bits_);
        }
        row = left;
      }
      if (!p.result.in_accumulator) {
        Element* to = &scratchpad_[first];
        for_columns(p.result.cols,
                    [&](int c) { to[c] = A::narrow(p.relu ? A::relu(row[c]) : row[c]); });
        continue;
      }
      Sum* to = &accumulator_[first];
      if (p.adds) {
        for_columns(p.result.cols, [&](int c) { to[c] = A::add(to[c], row[c]); });
      } else {
        std::copy_n(row, p.result.cols, to);
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
