// The loop over a matrix product: C = A * B + D in blocks of dim x dim.
#pragma once

#include "loop.hpp"

namespace cosim {

struct MatmulBounds {
  u32 i = 0, j = 0, k = 0;              // blocks
  u32 pad_i = 0, pad_j = 0, pad_k = 0;  // rows or columns that the last block lacks
  u64 a = 0, b = 0, d = 0, c = 0;       // DRAM addresses; D and C may be 0 for none
  u64 a_stride = 0, b_stride = 0, d_stride = 0, c_stride = 0;  // elements
  bool accumulates = false;             // the first products add to what the accumulator holds
  bool full_c = false;                  // C is stored as accumulator elements
  bool low_d = false;                   // D holds input elements
  bool a_transposed = false;
  bool b_transposed = false;
};

class MatmulLoop : public Loop {
 public:
  // Throws a Fault for bounds that the hardware cannot carry out.
  MatmulLoop(const LoopGeometry& geometry, const MatmulBounds& bounds, const LoopPlaces& places);

  std::unique_ptr<LoopStream> stream(LoopRole role) const override;
  bool is_convolution() const override { return false; }
  bool is_loaded(const LoopStream& execute, const LoopStream& a,
                 const LoopStream& b) const override;
  bool is_computed(const LoopStream& store, const LoopStream& execute) const override;

  // Sizes of block row i, block column j and block depth k.
  u32 rows(u32 i) const { return geometry_.dim - (i == bounds_.i - 1 ? bounds_.pad_i : 0); }
  u32 cols(u32 j) const { return geometry_.dim - (j == bounds_.j - 1 ? bounds_.pad_j : 0); }
  u32 depth(u32 k) const { return geometry_.dim - (k == bounds_.k - 1 ? bounds_.pad_k : 0); }
  u32 blocks_per_store() const;

  const LoopGeometry& geometry() const { return geometry_; }
  const MatmulBounds& bounds() const { return bounds_; }
  const LoopPlaces& places() const { return places_; }
  u32 b_start() const { return places_.b_end - bounds_.k * bounds_.j * geometry_.dim; }

 private:
  const LoopGeometry geometry_;
  const MatmulBounds bounds_;
  const LoopPlaces places_;
};

}  // namespace cosim
