// The registers that loop commands fill, as far as both the results and the timing need them.
#pragma once

#include <memory>

#include "convolution_loop.hpp"
#include "matmul_loop.hpp"

namespace cosim {

enum LoopFunct : u8 {
  kLoopWs = 8,
  kLoopWsBounds = 9,
  kLoopWsAddressesAB = 10,
  kLoopWsAddressesDC = 11,
  kLoopWsStridesAB = 12,
  kLoopWsStridesDC = 13,
  kLoopConvWs = 15,
  kLoopConvWs1 = 16,
  kLoopConvWs2 = 17,
  kLoopConvWs3 = 18,
  kLoopConvWs4 = 19,
  kLoopConvWs5 = 20,
  kLoopConvWs6 = 21,
};

inline bool is_loop_command(u8 funct) {
  return (funct >= kLoopWs && funct <= kLoopWsStridesDC) ||
         (funct >= kLoopConvWs && funct <= kLoopConvWs6);
}
inline bool starts_loop(u8 funct) { return funct == kLoopWs || funct == kLoopConvWs; }

// Each unroller holds two loops, which take turns and have their own registers and half of the
// scratchpad. Halves of the accumulator change with every loop that stores its result.
class LoopRegisters {
 public:
  explicit LoopRegisters(const Config& config) : geometry_(config) {}

  // Takes a loop command; the loop when it starts one. Throws a Fault for a loop that the hardware
  // cannot carry out, or that is not modelled.
  std::unique_ptr<Loop> take(u8 funct, u64 rs1, u64 rs2);

 private:
  template <typename Bounds>
  struct Unroller {
    Bounds bounds[2];
    int next = 0;               // the loop being configured
    bool upper_accumulator = false;
  };

  template <typename Bounds>
  LoopPlaces places(Unroller<Bounds>& unroller, bool stores) const;
  std::unique_ptr<Loop> start_matmul(u64 rs1, u64 rs2);
  std::unique_ptr<Loop> start_convolution(u64 rs1, u64 rs2);

  const LoopGeometry geometry_;
  Unroller<MatmulBounds> matmul_;
  Unroller<ConvolutionBounds> convolution_;
};

}  // namespace cosim
