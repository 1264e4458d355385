#pragma once
// One operation as the harness sees it: named buffers in, named buffers out, one function per implementation.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/philox.hpp"
#include "common/base/span.hpp"
#include "common/step/phase.hpp"
#include "verification/ops/call_bounds.hpp"
#include "verification/ops/op_call.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::cuda {
struct KernelTable;
}

namespace zeroproof::verification {

/// The classes of CONTRACT, last section.
enum class Exactness : std::uint8_t { bitwise, ordered, integer, drawn, bounded };
std::string_view name(Exactness exactness);

/// Runs one implementation on the buffers of a call.
using OpFunction = std::function<void(OpCall&)>;

struct Op {
  std::string name;      ///< "adamw_update"
  std::string contract;  ///< header below common/contracts that has its doc block: "adam.hpp"
  std::string type;      ///< name of the function type there: "AdamwUpdateFn"
  Exactness exactness = Exactness::bitwise;
  std::vector<Phase> phases;          ///< of a step that use it; none: those of L-BFGS
  std::vector<std::string> variants;  ///< settings other than sizes and values; at least one
  std::vector<Operand> operands;      ///< in the order the functions below expect
  std::vector<Fill> fills;            ///< what inputs can be made of
  std::int64_t largest = 20011;       ///< largest size of the sweep
  OpFunction reference, host,
      device;  ///< empty: no such implementation; device, if the contract leaves it to the host
  std::function<OpFunction(const cuda::KernelTable&)> host_of =
      {};  ///< the implementation of another table, if it is in it

  /// Writes the operands whose content is `given`; the words are those of element `index`.
  std::function<void(OpCall&)> generate;

  /// What a call takes besides its operands; empty if there is nothing, or nothing that has a name.
  std::function<std::vector<OpSetting>(const OpCall&)> settings = {};

  /// What any legal order may leave in results that need not have the contract's bits; empty where there is no bound.
  /// Both calls stay where they are. `candidate`: a flag may have to fit the other results.
  std::function<std::unique_ptr<CallBounds>(const OpCall& pristine, const OpCall& candidate)>
      bounds = {};
  /// Why every legal order has the same bits: "it compares, and rounds nothing". "" if not, or if there are bounds.
  std::string one_result = {};

  /// Class bounded only: error of the results divided by what the contract allows, at most 1 for a correct
  /// implementation; NaN if the result is of the wrong kind.
  std::function<double(const OpCall&)> contract_ratio;
};

/// Operand lists read better with these.
Operand input(std::string name, Content content = Content::value, DType dtype = DType::fp32);
Operand output(std::string name, DType dtype = DType::fp32);
Operand in_place(std::string name, Content content, DType dtype = DType::fp32);

/// The same operand with `count` values for every element.
Operand per_element(Operand operand, std::int64_t count);
/// The same operand with `count` values whatever the size.
Operand fixed(Operand operand, std::int64_t count);

/// Fills that make sense for numbers: all but patterns and sweep.
const std::vector<Fill>& number_fills();

/// Every operation of the contract, in the order of the phases.
const std::vector<Op>& all_ops();

/// nullptr if there is none of that name.
const Op* find_op(const std::string& name);

}  // namespace zeroproof::verification
