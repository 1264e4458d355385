#pragma once
// Reports about calls with wrong results.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verification/cases/result.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

/// "numel 1025, offset 1, variant typical plain, threads 1, fill index 2349, seed 1".
std::string shape_text(const Op& op, const CallShape& shape);

/// One element of every input of a call, for the result at this position.
std::vector<std::pair<std::string, std::string>> inputs_at(const Op& op, const OpCall& call,
                                                           std::int64_t element);

/// The exact value of a result: "0.0212140661234"; "" if it is not available.
std::string exact_value(const Op& op, std::size_t operand, std::int64_t index,
                        const OpCall& pristine, const OpCall& candidate);

/// The outputs in the order of data flow: moments before the master made from them, whatever the
/// order of operands.
std::vector<std::size_t> outputs_in_flow(const Op& op);

/// Inputs of the call and outputs of both sides, for a bundle.
std::vector<SavedTensor> saved_tensors(const Op& op, const OpCall& pristine,
                                       const OpCall& reference, const OpCall& candidate);

/// A likely cause of the error in each result (compare/hint), derived from the most informative
/// call: the first one that fails is often too short.
class OpHints {
 public:
  /// A call in which `differing` elements of operand `k` are wrong; no_order: in any legal order.
  void look(const Op& op, std::size_t k, std::int64_t differing, const OpCall& pristine,
            const OpCall& reference, const OpCall& candidate, bool no_order);

  /// A wrong call; only formulas that explain every one of them are kept.
  void look(const Op& op, const OpCall& pristine, const OpCall& candidate);

  /// "" without a hint.
  std::string of(const std::string& operand) const;

 private:
  struct Look {
    std::int64_t differing = 0;
    std::string hint;
  };
  std::map<std::string, Look> looks_;
  std::optional<std::vector<std::string>> formulas_;
};

}  // namespace zeroproof::verification
