// Reads a static RV64 ELF executable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "types.hpp"

namespace cosim {

struct ElfSegment {
  u64 address = 0;
  std::vector<u8> bytes;  // file contents, then zeros up to the size in memory
  bool writable = false;
  bool executable = false;
};

struct ElfSymbol {
  std::string name;
  u64 address = 0;
};

struct Elf {
  u64 entry = 0;
  std::vector<ElfSegment> segments;
  std::vector<ElfSymbol> symbols;

  std::optional<u64> symbol(const std::string& name) const;
};

// Throws std::invalid_argument saying what is wrong with the file. Segments of more than
// `max_bytes` in memory, together, are refused.
Elf read_elf(const u8* data, u64 size, u64 max_bytes);

}  // namespace cosim
