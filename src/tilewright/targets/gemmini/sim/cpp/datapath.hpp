// The values inside the accelerator: its local memories and its array, with the arithmetic of the
// configured element types. Commands are checked before they get here: see accelerator.hpp.
#pragma once

#include <memory>

#include "command.hpp"
#include "config.hpp"
#include "types.hpp"

namespace cosim {

// A matrix in local memory. Transposed, its columns are the local rows.
struct Block {
  bool exists = false;
  bool in_accumulator = false;
  bool transposed = false;
  u32 row = 0;
  u32 stride = 1;  // between local rows
  int rows = 0;
  int cols = 0;
};

// One pass through the array: result (+)= a * b + bias. Weight-stationary, b is what was latched
// before; output-stationary, it comes with the product and the sums stay in the array.
struct Product {
  Block a;
  Block b;       // output-stationary only
  Block bias;    // weight-stationary; output-stationary the value the sums begin with
  Block result;
  bool output_stationary = false;
  bool keeps_sums = false;  // output-stationary: adds to the sums of the product before
  bool adds = false;        // to the accumulator rows of the result
  bool relu = false;        // for results in the scratchpad and operands in the accumulator
  float scale = 1.0f;       // of operands in the accumulator
  int shift = 0;            // output-stationary, of the result
};

class Datapath {
 public:
  virtual ~Datapath() = default;

  // Moves of one local row; a null source stands for zeros.
  virtual void load_scratchpad(u32 row, const u8* source, int cols, float scale) = 0;
  virtual void load_accumulator(u32 row, const u8* source, int cols, const LoadConfig& config,
                                bool adds) = 0;
  virtual void store_scratchpad(u32 row, u8* target, int cols) const = 0;
  virtual void store_accumulator(u32 row, u8* target, int cols, const StoreConfig& config,
                                 bool full) const = 0;

  // Puts a matrix into the array, zeros around it; one that does not exist is all zeros.
  virtual void latch_weights(const Block& weights, bool relu, float scale) = 0;
  virtual void multiply(const Product& product) = 0;
};

// For the configuration's element types and array size, which must be ones that `config` allows.
std::unique_ptr<Datapath> make_datapath(const Config& config);

}  // namespace cosim
