#include "elf.hpp"

#include <cstring>
#include <stdexcept>

namespace cosim {
namespace {

constexpr u32 kLoadSegment = 1;      // PT_LOAD
constexpr u32 kExecutableFlag = 1;   // PF_X
constexpr u32 kWritableFlag = 2;     // PF_W
constexpr u32 kSymbolTable = 2;      // SHT_SYMTAB
constexpr u16 kRiscV = 243;          // EM_RISCV
constexpr u16 kExecutable = 2;       // ET_EXEC
constexpr u64 kHeaderBytes = 64;
constexpr u64 kProgramHeaderBytes = 56;
constexpr u64 kSectionHeaderBytes = 64;
constexpr u64 kSymbolBytes = 24;

// The bytes of a file, with every read checked.
class File {
 public:
  File(const u8* data, u64 size) : data_(data), size_(size) {}

  const u8* range(u64 offset, u64 length) const {
    if (length > size_ || offset > size_ - length) {
      throw std::invalid_argument("the ELF file is truncated");
    }
    return data_ + offset;
  }

  template <typename T>
  T at(u64 offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof value), sizeof value);
    return value;
  }

 private:
  const u8* data_;
  u64 size_;
};

void check_header(const File& file) {
  static constexpr u8 kMagic[4] = {0x7f, 'E', 'L', 'F'};
  if (std::memcmp(file.range(0, kHeaderBytes), kMagic, 4) != 0) {
    throw std::invalid_argument("not an ELF file");
  }
  const bool is_64_bit = file.at<u8>(4) == 2;
  const bool is_little_endian = file.at<u8>(5) == 1;
  if (!is_64_bit || !is_little_endian || file.at<u16>(18) != kRiscV) {
    throw std::invalid_argument("not a 64-bit little-endian RISC-V ELF file");
  }
  if (file.at<u16>(16) != kExecutable) {
    throw std::invalid_argument("not a statically linked ELF executable");
  }
}

ElfSegment read_segment(const File& file, u64 header, u64 max_bytes) {
  const u32 flags = file.at<u32>(header + 4);
  const u64 offset = file.at<u64>(header + 8);
  const u64 file_bytes = file.at<u64>(header + 32);
  const u64 memory_bytes = file.at<u64>(header + 40);
  if (file_bytes > memory_bytes || memory_bytes > max_bytes) {
    throw std::invalid_argument("the ELF file has a segment of impossible size");
  }
  ElfSegment segment;
  segment.address = file.at<u64>(header + 16);
  segment.writable = (flags & kWritableFlag) != 0;
  segment.executable = (flags & kExecutableFlag) != 0;
  const u8* contents = file.range(offset, file_bytes);
  segment.bytes.reserve(memory_bytes);
  segment.bytes.assign(contents, contents + file_bytes);
  segment.bytes.resize(memory_bytes, 0);
  return segment;
}

std::string read_name(const File& file, u64 table, u64 table_bytes, u32 offset) {
  const char* names = reinterpret_cast<const char*>(file.range(table, table_bytes));
  if (offset >= table_bytes) throw std::invalid_argument("the ELF file has a symbol without name");
  return std::string(names + offset, strnlen(names + offset, table_bytes - offset));
}

void read_symbols(const File& file, u64 sections, u64 header, std::vector<ElfSymbol>& symbols) {
  const u64 table = file.at<u64>(header + 24);
  const u64 count = file.at<u64>(header + 32) / kSymbolBytes;
  const u64 names_header = sections + file.at<u32>(header + 40) * kSectionHeaderBytes;
  const u64 names = file.at<u64>(names_header + 24);
  const u64 names_bytes = file.at<u64>(names_header + 32);
  for (u64 i = 0; i < count; i++) {
    const u64 entry = table + i * kSymbolBytes;
    if (file.at<u16>(entry + 6) == 0) continue;  // undefined
    symbols.push_back(
        {read_name(file, names, names_bytes, file.at<u32>(entry)), file.at<u64>(entry + 8)});
  }
}

}  // namespace

std::optional<u64> Elf::symbol(const std::string& name) const {
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.name == name) return symbol.address;
  }
  return std::nullopt;
}

Elf read_elf(const u8* data, u64 size, u64 max_bytes) {
  const File file(data, size);
  check_header(file);
  Elf elf;
  elf.entry = file.at<u64>(24);
  const u64 program_headers = file.at<u64>(32);
  u64 total = 0;
  for (u16 i = 0; i < file.at<u16>(56); i++) {
    const u64 header = program_headers + i * kProgramHeaderBytes;
    if (file.at<u32>(header) != kLoadSegment || file.at<u64>(header + 40) == 0) continue;
    elf.segments.push_back(read_segment(file, header, max_bytes - total));
    total += elf.segments.back().bytes.size();
  }
  const u64 sections = file.at<u64>(40);
  for (u16 i = 0; i < file.at<u16>(60); i++) {
    const u64 header = sections + i * kSectionHeaderBytes;
    if (file.at<u32>(header + 4) == kSymbolTable) {
      read_symbols(file, sections, header, elf.symbols);
    }
  }
  return elf;
}

}  // namespace cosim
