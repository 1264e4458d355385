#include "verification/tools/train/dump/legal_verdict.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "common/base/same_value.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/train/dump/buffer_rows.hpp"
#include "verification/tools/train/dump/legal_hint.hpp"
#include "verification/tools/train/dump/legal_run.hpp"

namespace zeroproof::verification {
namespace {

/// One tensor element by element; its entry of `beyond` gets the elements beyond their bound.
void judge_tensor(const LegalRun& run, const DumpTensor& tensor, const DumpBuffer& buffer,
                  const TensorView& got, const TensorView& want, std::size_t index,
                  LegalVerdict& verdict) {
  Comparison& result = verdict.beyond.tensors[index].bits;
  result = {};
  double& share = verdict.shares[index];
  for (std::int64_t i = 0; i < got.numel; ++i) {
    ++result.compared;
    const ElementBound bound = run.bound_of(buffer, tensor.parameter, i);
    const double value = float_at(got, i);
    if (!bound.judged) {
      // The contract's own result is legal; of others nothing is known.
      const bool same = element_bits(got, i) == element_bits(want, i) ||
                        (std::isnan(value) && std::isnan(float_at(want, i)));
      verdict.unjudged[index] += same ? 0 : 1;
      continue;
    }
    const double ratio = bound.ratio(value);
    share = std::max(share, std::isnan(ratio) ? HUGE_VAL : ratio);
    if (ratio <= 1) continue;
    if (!result.first) result.first = {i, element_bits(want, i), element_bits(got, i)};
    ++result.differing;
    result.last_index = i;
  }
}

LegalVerdict judge_with(const Experiment& experiment, const DumpPlan& plan,
                        const std::vector<DumpTensor>& tensors, const SetComparison& bits,
                        const FullState& start, const TheirTensor& theirs, bool fp64_betas) {
  LegalVerdict verdict;
  verdict.fp64_betas = fp64_betas;
  verdict.beyond = bits;
  verdict.shares.assign(tensors.size(), 0);
  verdict.unjudged.assign(tensors.size(), 0);
  GradCache leaves(experiment);
  DenseBaseline baseline(experiment, leaves, nullptr, &start);
  LegalRun run(experiment, start, fp64_betas);
  std::int64_t step = 0;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const DumpTensor& tensor = tensors[k];
    while (step < tensor.step) {
      baseline.step(++step);
      leaves.forget();
      run.step(step, baseline.optimizer().last_step(), baseline.optimizer().applied_steps(),
               reported_scalars(plan, tensors, step, theirs));
    }
    const DumpBuffer& buffer = plan.buffers()[tensor.buffer];
    if (step == 0 || !LegalRun::has_bound(buffer) || bits.tensors[k].match != TensorMatch::compared)
      continue;  // bits
    const std::unique_ptr<Loaded> got = theirs(tensor);
    std::vector<std::byte> bytes = plan.bytes_of(tensor, baseline.optimizer());
    const TensorView view = got->view();
    judge_tensor(run, tensor, buffer, view, {bytes.data(), view.dtype, view.numel}, k, verdict);
  }
  verdict.beyond.totals = {};
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    verdict.beyond.totals.add(verdict.beyond.tensors[k]);
    verdict.share = std::max(verdict.share, verdict.shares[k]);
    verdict.num_unjudged += verdict.unjudged[k];
  }
  return verdict;
}

}  // namespace

Loaded::Loaded(const SafetensorsReader& reader, const SafeTensor& tensor)
    : bytes_(tensor.num_bytes()), numel_(tensor.numel()), dtype_(*buffer_dtype(tensor.dtype)) {
  if (!bytes_.empty()) reader.read(tensor, 0, bytes_);
}

double float_at(const TensorView& view, std::int64_t i) {
  return view.dtype == DType::fp64 ? static_cast<const double*>(view.data)[i]
                                   : load_element(view, i);
}

LegalVerdict judge_legal(const Experiment& experiment, const DumpPlan& plan,
                         const std::vector<DumpTensor>& tensors, const SetComparison& bits,
                         const FullState& start, const TheirTensor& theirs) {
  const auto judge = [&](bool fp64_betas) {
    return judge_with(experiment, plan, tensors, bits, start, theirs, fp64_betas);
  };
  LegalVerdict verdict = judge(true);
  if (!verdict.accepted() || verdict.share > 0.5) {
    LegalVerdict rounded = judge(false);
    const auto wrong = [](const LegalVerdict& v) {
      return std::pair(v.beyond.totals.differing + v.num_unjudged, v.share);
    };
    if (wrong(rounded) < wrong(verdict)) verdict = std::move(rounded);
  }
  verdict.first = first_difference(plan, tensors, verdict.beyond);
  if (verdict.first.empty()) return verdict;
  const auto first = static_cast<std::size_t>(
      std::ranges::find_if(verdict.beyond.tensors,
                           [](const TensorDifference& t) { return !t.equal(); }) -
      verdict.beyond.tensors.begin());
  if (std::isfinite(verdict.shares[first]) && verdict.shares[first] > 1)
    verdict.first +=
        fmt::format("bound     the error is up to {:.3g} times the bound of any legal order\n",
                    verdict.shares[first]);
  const std::string cause =
      legal_hint(experiment, plan, tensors, start, theirs, first, verdict.fp64_betas);
  if (!cause.empty()) verdict.first += "hint      " + cause + "\n";
  return verdict;
}

}  // namespace zeroproof::verification
