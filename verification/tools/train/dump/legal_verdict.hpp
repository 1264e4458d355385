#pragma once
// Numbers of another optimizer against the bounds of any legal order, step by step ([Bound:steps]).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "verification/compare/judge/snapshot.hpp"
#include "verification/compare/tensors/set_comparison.hpp"
#include "verification/tools/train/dump/dump_plan.hpp"

namespace zeroproof::verification {

/// A tensor of a file, in memory.
class Loaded {
 public:
  /// Of a type that buffers have. Errors: as SafetensorsReader::read.
  Loaded(const SafetensorsReader& reader, const SafeTensor& tensor);
  TensorView view() { return {bytes_.data(), dtype_, numel_}; }

 private:
  std::vector<std::byte> bytes_;
  std::int64_t numel_;
  DType dtype_;
};

/// A tensor of the judged file; null if it has none.
using TheirTensor = std::function<std::unique_ptr<Loaded>(const DumpTensor&)>;

struct LegalVerdict {
  bool fp64_betas = false;     ///< which fit better: as the settings say, or rounded to fp32
  SetComparison beyond;        ///< as the comparison of bits, of elements beyond their bound alone
  std::vector<double> shares;  ///< [tensors] largest error in units of the bound
  std::vector<std::int64_t>
      unjudged;      ///< [tensors] elements outside the conditions whose bits differ
  double share = 0;  ///< the largest
  std::int64_t num_unjudged = 0;
  std::string
      first;  ///< the first tensor beyond its bound, as first_difference, with bound and hint

  bool accepted() const { return beyond.equal() && num_unjudged == 0; }
};

/// tensors: to judge, step by step; bits: their comparison with the undistributed optimizer; start: its first state.
/// Errors: as LegalRun.
LegalVerdict judge_legal(const Experiment& experiment, const DumpPlan& plan,
                         const std::vector<DumpTensor>& tensors, const SetComparison& bits,
                         const FullState& start, const TheirTensor& theirs);

/// Element i of a tensor of floats.
double float_at(const TensorView& view, std::int64_t i);

}  // namespace zeroproof::verification
