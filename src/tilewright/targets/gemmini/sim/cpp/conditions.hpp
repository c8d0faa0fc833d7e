// Records the results of a program's conditions, and of all other instructions that compute a number,
// where they depend on the contents of the kernel's arguments.
//
// Each register and each byte of memory has a label. The label of a value says by which instruction it
// was computed from an argument, or from memory that the accelerator wrote; `kData` is that of such
// memory itself, and of every byte of an argument that the core has not written in the same call.
//
// A branch on data also decides what the code after it does: it begins a decision, which ends where
// both of its ways meet again, or when its function returns. What is written while decisions are
// open is labelled with the innermost one, and becomes `kDecided` when this decision ends: on the other
// way, another value might have been written. Until then, the value only depends on the way that
// was taken, and is no data there. Code that is called on both ways must not see it as such a value:
// in a call, everything that was written under decisions of callers is data.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "pipeline.hpp"
#include "sequences.hpp"

namespace cosim {

// Where the two ways of each branch meet, by its address. Those of a branch without an entry meet
// only when its function returns.
using Joins = std::unordered_map<u64, u64>;

class Conditions {
 public:
  Conditions(Memory& memory, Joins joins);

  // A call of the kernel begins. What earlier calls left in memory keeps its labels.
  void begin_call();

  // The instruction at `pc` is next.
  void before(u64 pc);

  // An instruction was executed. `result` is the new value of its destination.
  void after(const Instruction& instruction, const Execution& execution, u64 result);

  // The accelerator wrote these bytes.
  void written_by_accelerator(u64 address, u64 size) {
    label_bytes(address, size, kData);
    stamp(address, size);
  }

  const std::unordered_map<u64, Condition>& found() const { return found_; }

 private:
  using Label = u32;  // a decision, an instruction (from `kComputed` on), or one of these three
  static constexpr Label kNone = 0;
  static constexpr Label kDecided = 0x7fffffff;
  static constexpr Label kComputed = 0x80000000;
  static constexpr Label kData = ~0u;
  static constexpr u64 kPageBytes = 4096;
  using Page = std::array<Label, kPageBytes>;
  using Pages = std::unordered_map<u64, std::unique_ptr<Page>>;  // by address / kPageBytes

  // A decision, or the beginning of code that must not see values of open decisions as such.
  struct Open {
    u64 branch = 0;
    u64 join = 0;
    u64 depth = 0;  // calls within the kernel's
    Label label = kNone;
    Label hidden = kNone;  // the labels below this one were data before it began
    bool is_boundary = false;
  };

  bool is_data(Label label) const;
  bool reads_data(const Instruction& in) const;
  std::array<Operand, 3> operands(const Instruction& in, const Execution& execution) const;
  Label label_of_result(bool is_data) const;
  Condition& site(const Instruction& in, u64 pc);
  Label computed(const Instruction& in, const Execution& execution, u64 result);
  void open(Open entry);
  void close(std::size_t size);
  void close_all();
  void decide(u64 branch);
  void jump(const Instruction& in, const Execution& execution);
  void note(u64 pc, bool is_on_data, bool result);
  bool balances(const Instruction& in) const;
  Label loaded(u64 address, u64 size);
  void stamp(u64 address, u64 size);
  void read_what_was_kept(u64 pc, u64 address, u64 size, u64 value);
  bool is_scattered(u64 address) const;
  void label_bytes(u64 address, u64 size, Label label);

  Memory& memory_;
  const Joins joins_;
  Label x_[32] = {};
  Label f_[32] = {};
  u64 floats_[32] = {};  // the values of the floating-point registers
  Label flags_ = kNone;     // of floating-point exceptions
  Label rounding_ = kNone;  // the rounding mode
  Pages pages_;
  Pages arguments_;  // what the core wrote to arguments in this call
  bool wrote_anywhere_ = false;  // at an address that is data, so all writable memory is data
  // The lowest and the highest address to which each instruction stored at an address that is data.
  std::unordered_map<u64, std::pair<u64, u64>> scattered_;
  // The call in which each byte that is no argument was written last.
  std::unordered_map<u64, std::unique_ptr<std::array<u32, kPageBytes>>> stamps_;
  std::unordered_map<u64, std::pair<u64, u64>> kept_;  // by address: the call that read it, its value
  std::vector<u64> returns_;     // addresses to which the open calls return
  std::vector<Open> open_;       // outermost first
  std::vector<Label> meaning_;   // by label: itself while open, else what it has become
  Label hidden_ = kNone;         // open labels below this one are data
  u64 calls_ = 0;
  std::unordered_map<u64, Condition> found_;
  std::vector<Condition*> sites_;  // those that computed numbers, by label - kComputed
};

}  // namespace cosim
