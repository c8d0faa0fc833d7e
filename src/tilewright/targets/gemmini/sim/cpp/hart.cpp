#include "hart.hpp"

#include <algorithm>
#include <cstring>

#include "traits.hpp"

namespace cosim {
namespace {

constexpr u64 kLimitInterval = 1 << 15;  // instructions between looks at the clock

constexpr u32 kFlags = 0x001;
constexpr u32 kRounding = 0x002;
constexpr u32 kFloatStatus = 0x003;
constexpr u32 kMachineCycle = 0xb00;
constexpr u32 kMachineInstructions = 0xb02;

u64 sign_extend_32(u64 value) {
  return static_cast<u64>(static_cast<i64>(static_cast<i32>(static_cast<u32>(value))));
}

// Division as the RISC-V manual defines it: by zero all ones, overflow gives the dividend.
template <typename T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(-static_cast<u64>(a));
  }
  return a / b;
}

template <typename T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}

u64 multiply_high_signed(u64 a, u64 b) {
  const __int128 product = static_cast<__int128>(static_cast<i64>(a)) * static_cast<i64>(b);
  return static_cast<u64>(product >> 64);
}

u64 multiply_high_unsigned(u64 a, u64 b) {
  return static_cast<u64>((static_cast<unsigned __int128>(a) * b) >> 64);
}

u64 multiply_high_mixed(u64 a, u64 b) {
  const __int128 product = static_cast<__int128>(static_cast<i64>(a)) * static_cast<__int128>(b);
  return static_cast<u64>(product >> 64);
}

u64 box_single(u32 bits) { return 0xffffffff00000000ull | bits; }

}  // namespace

Hart::Hart(Memory& memory, Accelerator& accelerator, Pipeline* pipeline, Conditions* conditions,
           const Start& start, const HartLimits& limits)
    : memory_(memory),
      accelerator_(accelerator),
      pipeline_(pipeline),
      conditions_(conditions),
      start_(start),
      limits_(limits),
      pc_(start.pc) {
  x_[1] = kReturnAddress;
  x_[2] = start.stack_pointer;
  if (conditions_) conditions_->begin_call();
}

HartStatus Hart::run(std::vector<Event>& events, std::size_t event_count) {
  try {
    while (status_ == HartStatus::running && events.size() < event_count) {
      if (pc_ == kReturnAddress) {
        status_ = HartStatus::finished;
        break;
      }
      if (instructions_ >= limits_.instructions) {
        status_ = HartStatus::instruction_limit;
        break;
      }
      if (instructions_ % kLimitInterval == 0 && limits_.deadline &&
          std::chrono::steady_clock::now() > *limits_.deadline) {
        status_ = HartStatus::time_limit;
        break;
      }
      const Instruction& in = fetch();
      if (conditions_) conditions_->before(pc_);
      const u64 address = x_[in.rs1] + static_cast<u64>(static_cast<i64>(in.imm));
      Execution execution{pc_, address, x_[in.rs1], x_[in.rs2], 0};
      next_pc_ = pc_ + in.length;
      execute(in);
      instructions_++;
      execution.next_pc = next_pc_;
      if (conditions_) {
        const bool is_float = traits_of(in.op).writes_float;
        conditions_->after(in, execution, is_float ? float_.f[in.rd] : x_[in.rd]);
      }
      if (pipeline_) account(in, execution, events);
      pc_ = next_pc_;
    }
  } catch (Fault& fault) {
    fault.pc = pc_;
    throw;
  }
  if (status_ == HartStatus::finished && pipeline_) {
    events.push_back({EventKind::end, 0, cycles_since_event_, 0, 0, pc_});
  }
  return status_;
}

const Instruction& Hart::fetch() {
  if (pc_ - code_.base >= code_.size) enter_code();
  if (pc_ & 1) throw_fault(FaultKind::illegal_address, "jump to an odd address");
  const u64 offset = pc_ - code_.base;
  Instruction& in = code_.instructions[offset / 2];
  if (in.length == 0) {
    u32 word = 0;
    std::memcpy(&word, code_.bytes + offset, code_.size - offset >= 4 ? 4 : 2);
    in = decode(word);
  }
  return in;
}

void Hart::enter_code() {
  const Region* region = memory_.find(pc_, 2);
  if (!region || !region->executable) {
    throw_fault(FaultKind::illegal_address, "the CPU jumps to 0x%llx, where there is no code",
                static_cast<unsigned long long>(pc_));
  }
  add_executed(executed_);
  code_ = {region->base, region->bytes.size() & ~1ull, region->bytes.data(), {}, {}};
  code_.instructions.resize(code_.size / 2);
  if (pipeline_) code_.executed.resize(code_.size / 2);
}

void Hart::add_executed(std::map<u64, u64>& to) const {
  for (std::size_t i = 0; i < code_.executed.size(); i++) {
    if (code_.executed[i] > 0) to[code_.base + 2 * i] += code_.executed[i];
  }
}

std::vector<std::pair<u64, u64>> Hart::executed() const {
  std::map<u64, u64> all = executed_;
  add_executed(all);
  return {all.begin(), all.end()};
}

void Hart::account(const Instruction& in, const Execution& execution,
                   std::vector<Event>& events) {
  code_.executed[(pc_ - code_.base) / 2]++;
  const u32 cycles = pipeline_->cycles(in, execution);
  if (const auto missed = pipeline_->fetch_miss()) {
    events.push_back({EventKind::fetch, 0, cycles_since_event_, *missed, 0, pc_});
    cycles_since_event_ = 0;
  }
  cycles_since_event_ += cycles;
  Event event{EventKind::end, 0, cycles_since_event_, 0, 0, pc_};
  if (in.op == Op::rocc) {
    event.kind = EventKind::command;
    event.funct = static_cast<u8>(in.imm);
    if (is_compute(event.funct)) computes_++;
    event.rs1 = x_[in.rs1];
    event.rs2 = x_[in.rs2];
  } else if ((in.op >= Op::lb && in.op <= Op::lwu) || in.op == Op::flw || in.op == Op::fld) {
    event.kind = EventKind::load;
    event.rs1 = execution.address;
  } else if ((in.op >= Op::sb && in.op <= Op::sd) || in.op == Op::fsw || in.op == Op::fsd) {
    event.kind = EventKind::store;
    event.rs1 = execution.address;
  } else if (in.op == Op::fence) {
    event.kind = EventKind::fence;
  } else if (read_cycle_counter_) {
    event.kind = EventKind::mark;
    read_cycle_counter_ = false;
  } else {
    return;
  }
  const u64 made = memory_.open_orders_made();
  event.open_orders = static_cast<u32>(made - open_orders_reported_);
  open_orders_reported_ = made;
  events.push_back(event);
  cycles_since_event_ = 0;
}

template <typename T>
T Hart::load(u64 address) {
  if (address % sizeof(T) != 0) {
    throw_fault(FaultKind::illegal_address, "misaligned CPU read of %zu bytes at 0x%llx",
                sizeof(T), static_cast<unsigned long long>(address));
  }
  T value;
  std::memcpy(&value, memory_.read(address, sizeof(T), pc_), sizeof(T));
  return value;
}

template <typename T>
void Hart::store(u64 address, T value) {
  if (address % sizeof(T) != 0) {
    throw_fault(FaultKind::illegal_address, "misaligned CPU write of %zu bytes at 0x%llx",
                sizeof(T), static_cast<unsigned long long>(address));
  }
  std::memcpy(memory_.write(address, sizeof(T), pc_), &value, sizeof(T));
  if (start_.finish_address && address == *start_.finish_address) status_ = HartStatus::finished;
  // Code that the program overwrites is decoded again.
  const u64 offset = address - code_.base;
  if (offset < code_.size) {
    const u64 first = offset < 2 ? 0 : offset / 2 - 1;
    const u64 last = std::min<u64>((offset + sizeof(T) - 1) / 2, code_.instructions.size() - 1);
    for (u64 i = first; i <= last; i++) code_.instructions[i].length = 0;
  }
}

void Hart::execute(const Instruction& in) {
  const u64 a = x_[in.rs1];
  const u64 b = x_[in.rs2];
  const u64 imm = static_cast<u64>(static_cast<i64>(in.imm));
  const u64 address = a + imm;
  const auto sa = static_cast<i64>(a);
  const auto sb = static_cast<i64>(b);
  switch (in.op) {
    case Op::lui: write_x(in.rd, imm); break;
    case Op::auipc: write_x(in.rd, pc_ + imm); break;
    case Op::jal:
      write_x(in.rd, next_pc_);
      next_pc_ = pc_ + imm;
      break;
    case Op::jalr:
      write_x(in.rd, next_pc_);
      next_pc_ = address & ~1ull;
      break;
    case Op::beq: branch_if(a == b, in); break;
    case Op::bne: branch_if(a != b, in); break;
    case Op::blt: branch_if(sa < sb, in); break;
    case Op::bge: branch_if(sa >= sb, in); break;
    case Op::bltu: branch_if(a < b, in); break;
    case Op::bgeu: branch_if(a >= b, in); break;
    case Op::lb: write_x(in.rd, static_cast<u64>(static_cast<i64>(load<i8>(address)))); break;
    case Op::lh: write_x(in.rd, static_cast<u64>(static_cast<i64>(load<i16>(address)))); break;
    case Op::lw: write_x(in.rd, static_cast<u64>(static_cast<i64>(load<i32>(address)))); break;
    case Op::ld: write_x(in.rd, load<u64>(address)); break;
    case Op::lbu: write_x(in.rd, load<u8>(address)); break;
    case Op::lhu: write_x(in.rd, load<u16>(address)); break;
    case Op::lwu: write_x(in.rd, load<u32>(address)); break;
    case Op::sb: store<u8>(address, static_cast<u8>(b)); break;
    case Op::sh: store<u16>(address, static_cast<u16>(b)); break;
    case Op::sw: store<u32>(address, static_cast<u32>(b)); break;
    case Op::sd: store<u64>(address, b); break;
    case Op::flw: float_.f[in.rd] = box_single(load<u32>(address)); break;
    case Op::fld: float_.f[in.rd] = load<u64>(address); break;
    case Op::fsw: store<u32>(address, static_cast<u32>(float_.f[in.rs2])); break;
    case Op::fsd: store<u64>(address, float_.f[in.rs2]); break;
    case Op::addi: write_x(in.rd, a + imm); break;
    case Op::slti: write_x(in.rd, sa < static_cast<i64>(imm)); break;
    case Op::sltiu: write_x(in.rd, a < imm); break;
    case Op::xori: write_x(in.rd, a ^ imm); break;
    case Op::ori: write_x(in.rd, a | imm); break;
    case Op::andi: write_x(in.rd, a & imm); break;
    case Op::slli: write_x(in.rd, a << imm); break;
    case Op::srli: write_x(in.rd, a >> imm); break;
    case Op::srai: write_x(in.rd, static_cast<u64>(sa >> imm)); break;
    case Op::addiw: write_x(in.rd, sign_extend_32(a + imm)); break;
    case Op::slliw: write_x(in.rd, sign_extend_32(a << imm)); break;
    case Op::srliw: write_x(in.rd, sign_extend_32(static_cast<u32>(a) >> imm)); break;
    case Op::sraiw:
      write_x(in.rd, static_cast<u64>(static_cast<i64>(static_cast<i32>(a) >> imm)));
      break;
    case Op::fence: memory_.fence(); break;
    case Op::csrrw: case Op::csrrs: case Op::csrrc:
    case Op::csrrwi: case Op::csrrsi: case Op::csrrci:
      execute_csr(in);
      break;
    case Op::rocc: accelerator_.execute(static_cast<u8>(in.imm), a, b, pc_); break;
    case Op::ecall: case Op::ebreak:
      throw_fault(FaultKind::illegal_instruction, "%s: there is no operating system",
                  in.op == Op::ecall ? "ecall" : "ebreak");
    case Op::illegal:
      throw_fault(FaultKind::illegal_instruction, "the CPU has no such instruction");
    default:
      if (in.op >= Op::add && in.op <= Op::sraw) {
        execute_register_op(in);
      } else if (in.op >= Op::mul && in.op <= Op::remuw) {
        execute_multiply(in);
      } else {
        execute_float(in, x_, float_);
      }
  }
}

void Hart::execute_register_op(const Instruction& in) {
  const u64 a = x_[in.rs1];
  const u64 b = x_[in.rs2];
  u64 result = 0;
  switch (in.op) {
    case Op::add: result = a + b; break;
    case Op::sub: result = a - b; break;
    case Op::sll: result = a << (b & 63); break;
    case Op::slt: result = static_cast<i64>(a) < static_cast<i64>(b); break;
    case Op::sltu: result = a < b; break;
    case Op::xor_: result = a ^ b; break;
    case Op::srl: result = a >> (b & 63); break;
    case Op::sra: result = static_cast<u64>(static_cast<i64>(a) >> (b & 63)); break;
    case Op::or_: result = a | b; break;
    case Op::and_: result = a & b; break;
    case Op::addw: result = sign_extend_32(a + b); break;
    case Op::subw: result = sign_extend_32(a - b); break;
    case Op::sllw: result = sign_extend_32(a << (b & 31)); break;
    case Op::srlw: result = sign_extend_32(static_cast<u32>(a) >> (b & 31)); break;
    default: result = static_cast<u64>(static_cast<i64>(static_cast<i32>(a) >> (b & 31))); break;
  }
  write_x(in.rd, result);
}

void Hart::execute_multiply(const Instruction& in) {
  const u64 a = x_[in.rs1];
  const u64 b = x_[in.rs2];
  const auto sa = static_cast<i64>(a);
  const auto sb = static_cast<i64>(b);
  const auto wa = static_cast<u32>(a);
  const auto wb = static_cast<u32>(b);
  const auto swa = static_cast<i32>(wa);
  const auto swb = static_cast<i32>(wb);
  u64 result = 0;
  switch (in.op) {
    case Op::mul: result = a * b; break;
    case Op::mulh: result = multiply_high_signed(a, b); break;
    case Op::mulhsu: result = multiply_high_mixed(a, b); break;
    case Op::mulhu: result = multiply_high_unsigned(a, b); break;
    case Op::div: result = static_cast<u64>(divide(sa, sb)); break;
    case Op::divu: result = divide(a, b); break;
    case Op::rem: result = static_cast<u64>(remainder(sa, sb)); break;
    case Op::remu: result = remainder(a, b); break;
    case Op::mulw: result = sign_extend_32(a * b); break;
    case Op::divw: result = sign_extend_32(static_cast<u32>(divide(swa, swb))); break;
    case Op::divuw: result = sign_extend_32(divide(wa, wb)); break;
    case Op::remw: result = sign_extend_32(static_cast<u32>(remainder(swa, swb))); break;
    default: result = sign_extend_32(remainder(wa, wb)); break;
  }
  write_x(in.rd, result);
}

void Hart::execute_csr(const Instruction& in) {
  const auto number = static_cast<u32>(in.imm);
  const bool is_immediate = in.op >= Op::csrrwi;
  const u64 operand = is_immediate ? in.rs1 : x_[in.rs1];
  const u64 old = read_csr(number);
  const bool writes_all = in.op == Op::csrrw || in.op == Op::csrrwi;
  const bool sets = in.op == Op::csrrs || in.op == Op::csrrsi;
  if (writes_all || in.rs1 != 0) {
    write_csr(number, writes_all ? operand : sets ? old | operand : old & ~operand);
  }
  write_x(in.rd, old);
}

u64 Hart::read_csr(u32 number) {
  switch (number) {
    case kFlags: return float_.flags;
    case kRounding: return float_.rounding;
    case kFloatStatus: return float_.flags | float_.rounding << 5;
    default: break;
  }
  if (!start_.is_machine) {
    throw_fault(FaultKind::illegal_instruction, "a kernel has no control register 0x%x", number);
  }
  if (number == kMachineCycle) read_cycle_counter_ = true;
  return number == kMachineInstructions ? instructions_ : 0;
}

void Hart::write_csr(u32 number, u64 value) {
  if (number == kFlags || number == kFloatStatus) float_.flags = value & 31;
  if (number == kRounding) float_.rounding = value & 7;
  if (number == kFloatStatus) float_.rounding = (value >> 5) & 7;
}

}  // namespace cosim
