// libFuzzer target of the co-simulator: whatever a candidate's binary holds, the simulator may
// refuse it or report a fault, but not crash, hang or touch memory that is not its own.
// The first byte of an input chooses what the rest is:
//   0  an ELF file;  1  machine code;  2  a stream of accelerator commands.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "simulation.hpp"

namespace {
using namespace cosim;

constexpr u64 kCode = 0x80002000, kConstants = 0x80100000, kArgument = 0x80200000;
constexpr u64 kMaxProgramBytes = 1 << 22, kArgumentBytes = 1 << 14;

// Parameters of the machine: lines "name value", written by run.py from a target file.
const Config& config() {
  static const Config read = [] {
    Config made;
    const char* path = std::getenv("COSIM_FUZZ_CONFIG");
    std::ifstream file(path != nullptr ? path : "");
    std::string name;
    int value = 0;
    while (file >> name >> value) {
#define COSIM_SET(field) \
  if (name == #field) made.field = value;
      COSIM_CONFIG_FIELDS(COSIM_SET)
#undef COSIM_SET
    }
    if (made.array_dim == 0) {
      std::fprintf(stderr, "COSIM_FUZZ_CONFIG names no file of parameters; use run.py\n");
      std::exit(2);
    }
    return made;
  }();
  return read;
}

// Reads numbers off an input; zeros when it is used up.
class Bytes {
 public:
  Bytes(const u8* data, u64 size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  template <typename T>
  T next() {
    T value = 0;
    const u64 count = std::min<u64>(sizeof value, size_);
    std::memcpy(&value, data_, count);
    data_ += count;
    size_ -= count;
    return value;
  }

 private:
  const u8* data_;
  u64 size_;
};

void push_word(std::vector<u8>& code, u32 word) {
  for (int shift = 0; shift < 32; shift += 8) code.push_back(static_cast<u8>(word >> shift));
}

void push_constant(std::vector<u8>& constants, u64 value) {
  for (int shift = 0; shift < 64; shift += 8) constants.push_back(static_cast<u8>(value >> shift));
}

// A register of a command: often a plausible address or tile, at times any 64 bits.
u64 operand(Bytes& in) {
  const u8 kind = in.next<u8>();
  const u64 dim = static_cast<u64>(config().array_dim);
  const u64 sizes[] = {0, 1, dim - 1, dim, dim + 1, 4 * dim, 4 * dim + 1, in.next<u16>()};
  const u64 local = in.next<u16>() | static_cast<u64>(kind >> 5) << 29;
  const u64 tile = local | sizes[in.next<u8>() % 8] << 32 | sizes[in.next<u8>() % 8] << 48;
  switch (kind % 8) {
    case 0: return kArgument + in.next<u16>() % (kArgumentBytes + 256);
    case 1: return 0;
    case 2: return in.next<u64>();
    case 3: return 0xffffffffull | tile << 32;
    case 4: return in.next<u16>() | static_cast<u64>(in.next<u8>() % 4) << 32;  // a setting
    default: return tile;
  }
}

// Loads both registers of each command from a table and issues it.
Elf command_stream(Bytes in) {
  std::vector<u8> code, constants;
  push_word(code, 0x80100337);  // lui x6, kConstants >> 12, sign-extended:
  push_word(code, 0x02031313);  // slli x6, x6, 32
  push_word(code, 0x02035313);  // srli x6, x6, 32
  for (int count = 0; !in.empty() && count < 400; ++count) {
    const u8 pick = in.next<u8>();
    const u32 funct = pick < 224 ? pick % 26 : pick & 127u;
    push_constant(constants, operand(in));
    push_constant(constants, operand(in));
    push_word(code, 0x00033283);                        // ld x5, 0(x6)
    push_word(code, 0x00833383);                        // ld x7, 8(x6)
    push_word(code, 0x01030313);                        // addi x6, x6, 16
    push_word(code, 0x0072b07b | funct << 25);          // custom-3 x5, x7
    if (in.next<u8>() % 16 == 0) push_word(code, 0x0ff0000f);  // fence
  }
  push_word(code, 0x00008067);  // ret
  constants.resize(std::max<u64>(constants.size(), 16));
  return {kCode, {{kCode, code, false, true}, {kConstants, constants, false, false}},
          {{"kernel", kCode}}};
}

Elf machine_code(const u8* data, u64 size) {
  std::vector<u8> code(data, data + size);
  push_word(code, 0x00008067);
  return {kCode, {{kCode, code, false, true}}, {{"kernel", kCode}}};
}

Elf program(u8 kind, const u8* data, u64 size) {
  if (kind % 3 == 0) return read_elf(data, size, kMaxProgramBytes);
  if (kind % 3 == 1) return machine_code(data, size);
  return command_stream({data, size});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  if (size < 2) return 0;
  const u8 options = data[1];
  try {
    const Elf elf = program(data[0], data + 2, size - 2);
    std::vector<Argument> arguments = {
        {kArgument, std::vector<u8>(kArgumentBytes, 3), true, "out"}};
    const Mode mode = options & 1 ? Mode::functional : Mode::timed;
    const OrderPolicy order = options & 2 ? OrderPolicy::timing : OrderPolicy::fence;
    const Limits limits = {200'000, 50'000, std::nullopt};
    if (options & 4) {
      run_program(config(), elf, {}, {{kArgument, 64}}, mode, limits);
    } else {
      std::vector<std::vector<std::vector<u8>>> later;
      if (options & 8) later.assign(2, {std::vector<u8>(kArgumentBytes, 5)});
      run_kernel(config(), elf, std::move(arguments), later, "kernel", mode, order, limits);
    }
  } catch (const std::invalid_argument&) {  // a file that cannot be loaded
  }
  return 0;
}
