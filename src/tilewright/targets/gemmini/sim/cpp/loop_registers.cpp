#include "loop_registers.hpp"

#include <algorithm>

#include "fault.hpp"

namespace cosim {
namespace {

u32 field(u64 word, int high, int low) {
  return static_cast<u32>(word >> low & ((1ull << (high - low + 1)) - 1));
}

void configure(MatmulBounds& loop, u8 funct, u64 rs1, u64 rs2) {
  switch (funct) {
    case kLoopWsBounds:
      loop.i = field(rs2, 15, 0);
      loop.j = field(rs2, 31, 16);
      loop.k = field(rs2, 47, 32);
      loop.pad_i = field(rs1, 15, 0);
      loop.pad_j = field(rs1, 31, 16);
      loop.pad_k = field(rs1, 47, 32);
      break;
    case kLoopWsAddressesAB: loop.a = rs1; loop.b = rs2; break;
    case kLoopWsAddressesDC: loop.d = rs1; loop.c = rs2; break;
    case kLoopWsStridesAB: loop.a_stride = rs1; loop.b_stride = rs2; break;
    default: loop.d_stride = rs1; loop.c_stride = rs2; break;
  }
}

void configure(ConvolutionBounds& loop, u8 funct, u64 rs1, u64 rs2) {
  switch (funct) {
    case kLoopConvWs1:
      loop.input_channels = field(rs1, 47, 32);
      loop.input_rows = field(rs1, 31, 16);
      loop.stride = field(rs2, 55, 48);
      loop.output_columns = field(rs2, 47, 32);
      loop.output_rows = field(rs2, 15, 0);
      break;
    case kLoopConvWs2:
      loop.kernel_size = field(rs1, 63, 48);
      loop.batches = field(rs2, 63, 48);
      loop.filters = field(rs2, 15, 0);
      break;
    case kLoopConvWs3:
      loop.kernel_rows = field(rs1, 63, 48);
      loop.kernel_columns = field(rs1, 47, 32);
      loop.channels = field(rs1, 31, 16);
      loop.left = field(rs1, 15, 0);
      loop.right = field(rs2, 63, 48);
      loop.up = field(rs2, 47, 32);
      loop.down = field(rs2, 31, 24);
      loop.input_columns = field(rs2, 15, 0);
      break;
    case kLoopConvWs4:
      loop.rows = field(rs1, 63, 48);
      loop.dilation = field(rs1, 9, 0);
      loop.input_stride = field(rs2, 63, 48);
      loop.weight_stride = field(rs2, 47, 32);
      loop.output_stride = field(rs2, 31, 16);
      loop.columns = field(rs2, 15, 0);
      break;
    case kLoopConvWs5: loop.weights = rs1; loop.output = rs2; break;
    default: loop.bias = rs1; loop.input = rs2; break;
  }
}

}  // namespace

LoopGeometry::LoopGeometry(const Config& config)
    : dim(static_cast<u32>(config.array_dim)),
      input_bytes(static_cast<u32>(config.element_bytes())),
      accumulator_bytes(static_cast<u32>(config.sum_bytes())),
      half_scratchpad(static_cast<u32>(config.scratchpad_rows() / 2)),
      half_accumulator(static_cast<u32>(config.accumulator_rows() / 2)) {
  const u32 request = static_cast<u32>(config.dma_max_request_bytes);
  max_blocks = static_cast<u32>(config.max_blocks());
  max_accumulator_blocks = std::max(request / (dim * accumulator_bytes), 1u);
}

std::unique_ptr<Loop> LoopRegisters::take(u8 funct, u64 rs1, u64 rs2) {
  if (funct == kLoopWs) return start_matmul(rs1, rs2);
  if (funct == kLoopConvWs) return start_convolution(rs1, rs2);
  if (funct < kLoopConvWs) {
    configure(matmul_.bounds[matmul_.next], funct, rs1, rs2);
  } else {
    configure(convolution_.bounds[convolution_.next], funct, rs1, rs2);
  }
  return nullptr;
}

template <typename Bounds>
LoopPlaces LoopRegisters::places(Unroller<Bounds>& unroller, bool stores) const {
  LoopPlaces places;
  const u32 loop = static_cast<u32>(unroller.next);
  places.a_start = loop * geometry_.half_scratchpad;
  places.b_end = (loop + 1) * geometry_.half_scratchpad;
  places.accumulator_start = unroller.upper_accumulator ? geometry_.half_accumulator : 0;
  unroller.next ^= 1;
  unroller.upper_accumulator ^= stores;
  return places;
}

std::unique_ptr<Loop> LoopRegisters::start_matmul(u64 rs1, u64 rs2) {
  if (rs1 >> 8 != 0 || rs2 >> 2 != 0) {
    throw_fault(FaultKind::illegal_instruction,
                "loop_ws with activation, scratchpad places, element-wise sums or skipped parts, "
                "which are not modelled");
  }
  MatmulBounds& bounds = matmul_.bounds[matmul_.next];
  bounds.accumulates = rs1 & 1;
  bounds.full_c = rs1 >> 1 & 1;
  bounds.low_d = rs1 >> 2 & 1;
  bounds.a_transposed = rs2 & 1;
  bounds.b_transposed = rs2 >> 1 & 1;
  const LoopPlaces local = places(matmul_, bounds.c != 0);
  return std::make_unique<MatmulLoop>(geometry_, bounds, local);
}

std::unique_ptr<Loop> LoopRegisters::start_convolution(u64 rs1, u64 rs2) {
  const u32 pixels_per_row = field(rs1, 15, 8);
  if (rs1 >> 1 & 0x7f || rs1 >> 16 != 0 || pixels_per_row > 1 || (rs2 & 7) != 1) {
    throw_fault(FaultKind::illegal_instruction,
                "loop_conv_ws with pooling, transposed arrays, depthwise filters, dilated or "
                "downsampled inputs, several pixels per row or scratchpad places, which are not "
                "modelled");
  }
  ConvolutionBounds& bounds = convolution_.bounds[convolution_.next];
  bounds.has_no_bias = rs1 & 1;
  const LoopPlaces local = places(convolution_, bounds.output != 0);
  return std::make_unique<ConvolutionLoop>(geometry_, bounds, local);
}

}  // namespace cosim
