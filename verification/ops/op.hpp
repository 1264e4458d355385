#pragma once
// One operation in the harness: named input and output buffers, and one function per
// implementation.

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
#include "verification/ops/call_statistic.hpp"
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
  std::vector<Phase> phases;          ///< phases of a step that use it; empty for L-BFGS
  std::vector<std::string> variants;  ///< settings other than sizes and values; at least one
  std::vector<Operand> operands;      ///< in the order the functions below expect
  std::vector<Fill> fills;            ///< supported fills of inputs
  std::int64_t largest = 20011;       ///< largest size of the sweep
  OpFunction reference, host,
      device;  ///< empty: no such implementation; device, if the contract leaves it to the host
  std::function<OpFunction(const cuda::KernelTable&)> host_of =
      {};  ///< the implementation of another table, if it is in it

  /// Writes the operands whose content is `given`; the words are those of element `index`.
  std::function<void(OpCall&)> generate;

  /// Named arguments of a call besides its operands; empty if there are none.
  std::function<std::vector<OpSetting>(const OpCall&)> settings = {};

  /// Bounds on results without the contract's bits over all legal orders; empty if there is no
  /// bound. Both calls must stay valid. `candidate`: a flag may have to fit the other results.
  std::function<std::unique_ptr<CallBounds>(const OpCall& pristine, const OpCall& candidate)>
      bounds = {};
  /// Variants that a candidate computes from the same inputs before bounds judge its results
  /// (OpCall::earlier); empty if there are none.
  std::function<std::vector<int>(const OpCall& pristine)> earlier = {};
  bool corrects_bias = false;  ///< with powers of the betas: its bounds have some in fp32
  /// A property of all results together that a candidate without the contract's bits must have too;
  /// empty if there is none.
  std::function<std::unique_ptr<CallStatistic>()> statistic = {};
  /// Known wrong formulas with the results of `candidate` (compare/wrong_formulas.hpp); nothing if too
  /// few results differ. Empty if none are known.
  std::function<std::optional<std::vector<std::string>>(const OpCall& pristine,
                                                        const OpCall& candidate)>
      wrong_formulas = {};
  /// The reason why every legal order has the same bits: "it compares, and rounds nothing". ""
  /// without one, or with bounds.
  std::string one_result = {};

  /// Class bounded only: error of the results divided by what the contract allows, at most 1 for a correct
  /// implementation; NaN if the result is of the wrong kind.
  std::function<double(const OpCall&)> contract_ratio;
};

/// Shorthands for operand lists.
Operand input(std::string name, Content content = Content::value, DType dtype = DType::fp32);
Operand output(std::string name, DType dtype = DType::fp32);
Operand in_place(std::string name, Content content, DType dtype = DType::fp32);

/// The same operand with `count` values for every element.
Operand per_element(Operand operand, std::int64_t count);
/// The same operand with `count` values for any size.
Operand fixed(Operand operand, std::int64_t count);

/// The same operand as an array of these sizes: names of settings of the call.
Operand shaped(Operand operand, std::vector<std::string> extents);

/// The shape of an operand in a call of `numel` elements: [numel], [numel, per_element], [count] or its extents among
/// the settings of the call.
std::vector<std::int64_t> shape_of(const Operand& operand, std::int64_t numel,
                                   const std::vector<OpSetting>& settings);

/// The same operand in bf16: the numbers of a fill, cast.
Operand in_bf16(Operand operand);

/// Fills for numbers: all but patterns and sweep.
const std::vector<Fill>& number_fills();

/// Every operation of the contract, in the order of the phases.
const std::vector<Op>& all_ops();

/// nullptr for an unknown name.
const Op* find_op(const std::string& name);

}  // namespace zeroproof::verification
