#include "fault.hpp"

#include <cstdarg>
#include <cstdio>

namespace cosim {

const char* fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_instruction: return "illegal_instruction";
    case FaultKind::illegal_address: return "illegal_address";
    case FaultKind::input_modified: return "input_modified";
    case FaultKind::local_out_of_bounds: return "local_out_of_bounds";
    case FaultKind::limit_exceeded: return "limit_exceeded";
    case FaultKind::uninitialised_read: return "uninitialised_read";
    case FaultKind::unordered_dram_read: return "unordered_dram_read";
    case FaultKind::unordered_dram_write: return "unordered_dram_write";
    case FaultKind::raced_dram_access: return "raced_dram_access";
  }
  return "crash";
}

void throw_fault(FaultKind kind, const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Fault{kind, text};
}

}  // namespace cosim
