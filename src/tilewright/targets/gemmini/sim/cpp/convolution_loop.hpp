// The loop over a tile of a convolution, without pooling.
#pragma once

#include "loop.hpp"

namespace cosim {

struct ConvolutionBounds {
  // Of the whole arrays.
  u32 input_rows = 0, input_columns = 0;    // rows and columns of pixels
  u32 output_rows = 0, output_columns = 0;
  u32 kernel_size = 0, stride = 0, dilation = 0;
  u32 input_channels = 0;                   // of the weights
  u32 input_stride = 0, weight_stride = 0, output_stride = 0;  // elements from pixel to pixel
  // Of the tile.
  u32 batches = 0, rows = 0, columns = 0, filters = 0;  // output
  u32 kernel_rows = 0, kernel_columns = 0, channels = 0;
  u32 left = 0, right = 0, up = 0, down = 0;  // zeros around the input
  u64 weights = 0, output = 0, bias = 0, input = 0;  // DRAM; bias and output may be 0 for none
  bool has_no_bias = false;                   // the accumulator begins as zeros

  u32 tile_rows() const { return rows * stride + (kernel_rows - 1) * dilation; }
  u32 tile_columns() const { return columns * stride + (kernel_columns - 1) * dilation; }
};

class ConvolutionLoop : public Loop {
 public:
  // Throws a Fault for bounds that the hardware cannot carry out.
  ConvolutionLoop(const LoopGeometry& geometry, const ConvolutionBounds& bounds,
                  const LoopPlaces& places);

  std::unique_ptr<LoopStream> stream(LoopRole role) const override;
  bool is_convolution() const override { return true; }
  bool is_loaded(const LoopStream&, const LoopStream& a, const LoopStream& b) const override {
    return a.is_done && b.is_done;
  }
  bool is_computed(const LoopStream&, const LoopStream& execute) const override {
    return execute.is_done;
  }

  const LoopGeometry& geometry() const { return geometry_; }
  const ConvolutionBounds& bounds() const { return bounds_; }
  const LoopPlaces& places() const { return places_; }
  u32 blocks(u32 size) const { return (size + geometry_.dim - 1) / geometry_.dim; }
  // Local rows of dim channels or filters.
  u32 input_rows_per_block() const {
    return bounds_.batches * bounds_.tile_rows() * bounds_.tile_columns();
  }
  u32 weight_rows_per_block() const {
    return bounds_.kernel_rows * bounds_.kernel_columns * bounds_.channels;
  }
  u32 output_rows_per_block() const { return bounds_.batches * bounds_.rows * bounds_.columns; }
  u32 b_start() const {
    return places_.b_end - blocks(bounds_.filters) * weight_rows_per_block();
  }

 private:
  const LoopGeometry geometry_;
  const ConvolutionBounds bounds_;
  const LoopPlaces places_;
};

}  // namespace cosim
