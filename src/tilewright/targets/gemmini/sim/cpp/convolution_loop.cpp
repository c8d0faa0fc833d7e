#include "convolution_loop.hpp"

#include <algorithm>
#include <initializer_list>

#include "command.hpp"
#include "fault.hpp"

namespace cosim {
namespace {

constexpr u32 kAccumulator = 0x80000000u;
constexpr u32 kAccumulate = 0x40000000u;
constexpr u64 kScaleOne = 0x3f800000ull << 32;

// A counter of a loop nest: from `begin` by `step` while below `end`.
struct Counter {
  i32& value;
  i32 begin;
  i32 step;
  i32 end;
};

// Steps a loop nest, innermost counter first; true when it has run through.
bool step(std::initializer_list<Counter> nest) {
  for (const Counter& counter : nest) {
    counter.value += counter.step;
    if (counter.value < counter.end) return false;
    counter.value = counter.begin;
  }
  return true;
}

class ConvolutionStream : public LoopStream {
 public:
  explicit ConvolutionStream(const ConvolutionLoop& loop) : loop_(loop) {}

 protected:
  const ConvolutionBounds& bounds() const { return loop_.bounds(); }
  i32 dim() const { return static_cast<i32>(loop_.geometry().dim); }
  // Channels that one move carries.
  static i32 widest(u32 channels, u32 blocks, u32 dim) {
    return static_cast<i32>(std::min(channels, blocks * dim));
  }
  const ConvolutionLoop loop_;
};

i32 signed_of(u32 value) { return static_cast<i32>(value); }

// A load setting is sent before the first move.
CommandWords load_setting(int id, u64 dram_stride, u32 block_stride) {
  return {kConfig, kScaleOne | static_cast<u64>(block_stride) << 16 | 1u << 8 |
                       static_cast<u64>(id) << 3 | kConfigLoad,
          dram_stride};
}

class BiasLoads : public ConvolutionStream {
 public:
  explicit BiasLoads(const ConvolutionLoop& loop) : ConvolutionStream(loop) {
    is_done = bounds().bias == 0;
    const LoopGeometry& g = loop.geometry();
    wide_ = widest(bounds().filters, g.max_accumulator_blocks, g.dim);
  }

  CommandWords command() const override {
    if (!is_set_) return load_setting(2, 0, loop_.output_rows_per_block());
    const u32 block = static_cast<u32>(filter_ / dim()) * loop_.output_rows_per_block();
    const u32 pixel = (static_cast<u32>(batch_) * bounds().rows + static_cast<u32>(row_)) *
                          bounds().columns + static_cast<u32>(column_);
    const u64 from = bounds().bias + static_cast<u64>(filter_) * loop_.geometry().accumulator_bytes;
    return {kMvin3, bounds().has_no_bias ? 0 : from,
            pack_tile(kAccumulator | (loop_.places().accumulator_start + block + pixel),
                      std::min(wide_, signed_of(bounds().filters) - filter_),
                      std::min(dim(), signed_of(bounds().columns) - column_))};
  }

  void advance() override {
    if (!is_set_) {
      is_set_ = true;
      return;
    }
    is_done = step({{filter_, 0, wide_, signed_of(bounds().filters)},
                    {column_, 0, dim(), signed_of(bounds().columns)},
                    {row_, 0, 1, signed_of(bounds().rows)},
                    {batch_, 0, 1, signed_of(bounds().batches)}});
  }

 private:
  i32 wide_ = 0;
  bool is_set_ = false;
  i32 filter_ = 0, column_ = 0, row_ = 0, batch_ = 0;
};

// Pixels of the tile with the zeros around them; zeros are written without DRAM.
class InputLoads : public ConvolutionStream {
 public:
  explicit InputLoads(const ConvolutionLoop& loop) : ConvolutionStream(loop) {
    const LoopGeometry& g = loop.geometry();
    wide_ = widest(bounds().channels, g.max_blocks, g.dim);
    left_ = signed_of(bounds().left);
    up_ = signed_of(bounds().up);
    rows_ = signed_of(bounds().tile_rows()) - up_ - signed_of(bounds().down);
    columns_ = signed_of(bounds().tile_columns()) - left_ - signed_of(bounds().right);
    row_ = -up_;
    column_ = -left_;
  }

  CommandWords command() const override {
    const u64 bytes = loop_.geometry().input_bytes;
    if (!is_set_) {
      return load_setting(0, bounds().input_stride * bytes, loop_.input_rows_per_block());
    }
    const bool is_zeros = row_ < 0 || row_ >= rows_ || column_ < 0 || column_ >= columns_;
    const i64 pixel = (static_cast<i64>(batch_) * bounds().input_rows + row_) *
                          bounds().input_columns + column_;
    const i64 offset = (pixel * bounds().input_stride + channel_) * static_cast<i64>(bytes);
    const u32 local = static_cast<u32>(channel_ / dim()) * loop_.input_rows_per_block() +
                      (static_cast<u32>(batch_) * bounds().tile_rows() +
                       static_cast<u32>(row_ + up_)) * bounds().tile_columns() +
                      static_cast<u32>(column_ + left_);
    return {kMvin, is_zeros ? 0 : bounds().input + static_cast<u64>(offset),
            pack_tile(loop_.places().a_start + local,
                      std::min(wide_, signed_of(bounds().channels) - channel_), pixels())};
  }

  void advance() override {
    if (!is_set_) {
      is_set_ = true;
      return;
    }
    is_done = step({{channel_, 0, wide_, signed_of(bounds().channels)},
                    {column_, -left_, pixels(), columns_ + signed_of(bounds().right)},
                    {row_, -up_, 1, rows_ + signed_of(bounds().down)},
                    {batch_, 0, 1, signed_of(bounds().batches)}});
  }

 private:
  // Of one move: all inside the input, or all zeros.
  i32 pixels() const {
    if (column_ < 0) return std::min(-column_, dim());
    const bool is_right = column_ >= columns_;
    const i32 end = is_right ? columns_ + signed_of(bounds().right) : columns_;
    return std::min(end - column_, dim());
  }

  i32 wide_ = 0;
  i32 left_ = 0, up_ = 0, rows_ = 0, columns_ = 0;  // those inside the input
  bool is_set_ = false;
  i32 channel_ = 0, column_ = 0, row_ = 0, batch_ = 0;
};

class WeightLoads : public ConvolutionStream {
 public:
  explicit WeightLoads(const ConvolutionLoop& loop) : ConvolutionStream(loop) {
    const LoopGeometry& g = loop.geometry();
    wide_ = widest(bounds().filters, g.max_blocks, g.dim);
  }

  CommandWords command() const override {
    const u64 bytes = loop_.geometry().input_bytes;
    if (!is_set_) {
      return load_setting(1, bounds().weight_stride * bytes, loop_.weight_rows_per_block());
    }
    const i64 position = static_cast<i64>(row_) * bounds().kernel_size + column_;
    const i64 offset = (position * signed_of(bounds().input_channels) + channel_) *
                           bounds().weight_stride + filter_;
    const u32 local = static_cast<u32>(filter_ / dim()) * loop_.weight_rows_per_block() +
                      (static_cast<u32>(row_) * bounds().kernel_columns +
                       static_cast<u32>(column_)) * bounds().channels +
                      static_cast<u32>(channel_);
    return {kMvin2, bounds().weights + static_cast<u64>(offset) * bytes,
            pack_tile(loop_.b_start() + local,
                      std::min(wide_, signed_of(bounds().filters) - filter_),
                      std::min(dim(), signed_of(bounds().channels) - channel_))};
  }

  void advance() override {
    if (!is_set_) {
      is_set_ = true;
      return;
    }
    is_done = step({{channel_, 0, dim(), signed_of(bounds().channels)},
                    {column_, 0, 1, signed_of(bounds().kernel_columns)},
                    {row_, 0, 1, signed_of(bounds().kernel_rows)},
                    {filter_, 0, wide_, signed_of(bounds().filters)}});
  }

 private:
  i32 wide_ = 0;
  bool is_set_ = false;
  i32 channel_ = 0, column_ = 0, row_ = 0, filter_ = 0;
};

// All pixels by one block of weights, which stays in the array after the first product.
class Products : public ConvolutionStream {
 public:
  explicit Products(const ConvolutionLoop& loop) : ConvolutionStream(loop) {}

  CommandWords command() const override {
    const u64 pixels = static_cast<u64>(std::min(dim(), signed_of(bounds().columns) - column_));
    const u64 cols = static_cast<u64>(std::min(dim(), signed_of(bounds().filters) - filter_));
    const u64 depth = static_cast<u64>(std::min(dim(), signed_of(bounds().channels) - channel_));
    if (is_compute_) {
      return {has_new_weights_ ? kComputePreloaded : kComputeAccumulated,
              pack_tile(input(), depth, pixels), pack_tile(LocalAddress::kNone, cols, pixels)};
    }
    return {kPreload, pack_tile(has_new_weights_ ? weights() : LocalAddress::kNone, cols, depth),
            pack_tile(kAccumulator | kAccumulate | output(), cols, pixels)};
  }

  void advance() override {
    is_compute_ = !is_compute_;
    if (is_compute_) return;
    is_done = step({{column_, 0, dim(), signed_of(bounds().columns)},
                    {row_, 0, 1, signed_of(bounds().rows)},
                    {batch_, 0, 1, signed_of(bounds().batches)},
                    {channel_, 0, dim(), signed_of(bounds().channels)},
                    {kernel_column_, 0, 1, signed_of(bounds().kernel_columns)},
                    {kernel_row_, 0, 1, signed_of(bounds().kernel_rows)},
                    {filter_, 0, dim(), signed_of(bounds().filters)}});
    has_new_weights_ = batch_ == 0 && row_ == 0 && column_ == 0;
  }

 private:
  u32 input() const {
    const u32 row = static_cast<u32>(row_) * bounds().stride +
                    static_cast<u32>(kernel_row_) * bounds().dilation;
    const u32 column = static_cast<u32>(column_) * bounds().stride +
                       static_cast<u32>(kernel_column_) * bounds().dilation;
    return loop_.places().a_start +
           static_cast<u32>(channel_ / dim()) * loop_.input_rows_per_block() +
           (static_cast<u32>(batch_) * bounds().tile_rows() + row) * bounds().tile_columns() +
           column;
  }
  u32 weights() const {
    return loop_.b_start() + static_cast<u32>(filter_ / dim()) * loop_.weight_rows_per_block() +
           (static_cast<u32>(kernel_row_) * bounds().kernel_columns +
            static_cast<u32>(kernel_column_)) * bounds().channels + static_cast<u32>(channel_);
  }
  u32 output() const {
    return loop_.places().accumulator_start +
           static_cast<u32>(filter_ / dim()) * loop_.output_rows_per_block() +
           (static_cast<u32>(batch_) * bounds().rows + static_cast<u32>(row_)) * bounds().columns +
           static_cast<u32>(column_);
  }

  bool is_compute_ = false;
  bool has_new_weights_ = true;
  i32 column_ = 0, row_ = 0, batch_ = 0, channel_ = 0, kernel_column_ = 0, kernel_row_ = 0,
      filter_ = 0;
};

class Stores : public ConvolutionStream {
 public:
  explicit Stores(const ConvolutionLoop& loop) : ConvolutionStream(loop) {
    is_done = bounds().output == 0;
  }

  CommandWords command() const override {
    const u64 pixel = (static_cast<u64>(batch_) * bounds().output_rows + static_cast<u64>(row_)) *
                          bounds().output_columns + static_cast<u64>(column_);
    const u64 offset = (pixel * bounds().output_stride + static_cast<u64>(filter_)) *
                       loop_.geometry().input_bytes;
    const u32 local = static_cast<u32>(filter_ / dim()) * loop_.output_rows_per_block() +
                      (static_cast<u32>(batch_) * bounds().rows + static_cast<u32>(row_)) *
                          bounds().columns + static_cast<u32>(column_);
    return {kMvout, bounds().output + offset,
            pack_tile(kAccumulator | (loop_.places().accumulator_start + local),
                      std::min(dim(), signed_of(bounds().filters) - filter_),
                      std::min(dim(), signed_of(bounds().columns) - column_))};
  }

  void advance() override {
    is_done = step({{filter_, 0, dim(), signed_of(bounds().filters)},
                    {column_, 0, dim(), signed_of(bounds().columns)},
                    {row_, 0, 1, signed_of(bounds().rows)},
                    {batch_, 0, 1, signed_of(bounds().batches)}});
  }

 private:
  i32 filter_ = 0, column_ = 0, row_ = 0, batch_ = 0;
};

}  // namespace

ConvolutionLoop::ConvolutionLoop(const LoopGeometry& geometry, const ConvolutionBounds& bounds,
                                 const LoopPlaces& places)
    : geometry_(geometry), bounds_(bounds), places_(places) {
  const auto least = std::min({bounds.batches, bounds.rows, bounds.columns, bounds.filters,
                               bounds.kernel_rows, bounds.kernel_columns, bounds.channels,
                               bounds.stride, bounds.dilation});
  if (least == 0) {
    throw_fault(FaultKind::limit_exceeded,
                "loop_conv_ws: batches, rows, columns, filters, kernel rows and columns, channels, "
                "stride and dilation must all be 1 or more");
  }
  if (bounds.up + bounds.down >= bounds.tile_rows() ||
      bounds.left + bounds.right >= bounds.tile_columns()) {
    throw_fault(FaultKind::limit_exceeded,
                "loop_conv_ws: the padding leaves nothing of the tile's %u x %u input pixels",
                bounds.tile_rows(), bounds.tile_columns());
  }
  // In floating point: the fields of absurd bounds overflow whole numbers.
  const double operands =
      1.0 * blocks(bounds.channels) * bounds.batches * bounds.tile_rows() * bounds.tile_columns() +
      1.0 * blocks(bounds.filters) * bounds.kernel_rows * bounds.kernel_columns * bounds.channels;
  const double results =
      1.0 * blocks(bounds.filters) * bounds.batches * bounds.rows * bounds.columns;
  if (operands > geometry.half_scratchpad || results > geometry.half_accumulator) {
    throw_fault(FaultKind::local_out_of_bounds,
                "loop_conv_ws needs %.0f scratchpad and %.0f accumulator rows: a loop has half of "
                "each, %u and %u",
                operands, results, geometry.half_scratchpad, geometry.half_accumulator);
  }
}

std::unique_ptr<LoopStream> ConvolutionLoop::stream(LoopRole role) const {
  switch (role) {
    case kLoadA: return std::make_unique<InputLoads>(*this);
    case kLoadB: return std::make_unique<WeightLoads>(*this);
    case kLoadD: return std::make_unique<BiasLoads>(*this);
    case kExecute: return std::make_unique<Products>(*this);
    default: return std::make_unique<Stores>(*this);
  }
}

}  // namespace cosim
