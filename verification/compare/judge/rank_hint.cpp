// Hints about the first differing buffer of a training step.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "verification/cases/step_scalar_names.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/hint.hpp"
#include "verification/compare/judge/rank_comparison.hpp"

namespace zeroproof::verification {
namespace {

/// The scalars that differ. A scalar that differs in every set may be wrong by a factor.
std::string scalars_hint(const TensorView& want, const TensorView& got,
                         const std::vector<NamedFactor>& factors) {
  std::string names;
  int different = 0;
  std::size_t last = 0;
  for (std::size_t k = 0; k < step_scalar_names.size(); ++k) {
    bool same = true;
    for (std::int64_t i = static_cast<std::int64_t>(k); i < want.numel;
         i += num_step_scalar_words) {
      same = same && element_bits(want, i) == element_bits(got, i);
    }
    if (same) continue;
    names += (names.empty() ? "" : ", ") + std::string(step_scalar_names[k]);
    ++different;
    last = k;
  }
  std::string text = "only " + names + (different == 1 ? " differs" : " differ");
  if (different != 1 || last >= num_step_scalar_words - num_step_scalar_flags) return text;
  HintEvidence one;
  one.want = {static_cast<std::uint32_t*>(want.data) + last, DType::fp32, 1};
  one.got = {static_cast<std::uint32_t*>(got.data) + last, DType::fp32, 1};
  one.factors = factors;
  const std::string value = hint(one);
  return value.empty() ? text : text + ": " + value;
}

/// Words with independent counters.
std::string scaler_hint(const TensorView& want, const TensorView& got) {
  static constexpr const char* words[] = {"the logarithm of the scale", "the growth tracker",
                                          "the hysteresis left"};
  std::string text;
  for (std::int64_t k = 0; k < std::min<std::int64_t>(want.numel, std::size(words)); ++k) {
    const auto difference = static_cast<std::int32_t>(
        static_cast<std::uint32_t>(element_bits(got, k) - element_bits(want, k)));
    if (difference == 0) continue;
    text += (text.empty() ? "only " : ", ") + std::string(words[k]) + ", by " +
            std::to_string(std::abs(difference)) + (difference > 0 ? " more" : " less");
  }
  return text.empty() ? "" : text + " than it should, differs";
}

std::string flag_hint(const TensorView& got) {
  return element_bits(got, 0) != 0
             ? "it is set, and on no rank is a value that is not finite"
             : "it is not set, and on some rank is a value that is not finite";
}

/// The concatenated elements of some pieces.
class Gathered {
 public:
  Gathered(const TensorView& from, const std::vector<Piece>& pieces) : dtype_(from.dtype) {
    const auto width = static_cast<std::size_t>(num_bytes(dtype_));
    for (const Piece& piece : pieces) {
      const std::size_t begin = bytes_.size();
      const std::size_t length = static_cast<std::size_t>(piece.numel) * width;
      bytes_.resize(begin + length);
      if (length == 0) continue;
      std::memcpy(bytes_.data() + begin,
                  static_cast<const std::byte*>(from.data) +
                      static_cast<std::size_t>(piece.local_begin) * width,
                  length);
    }
  }

  TensorView view() {
    return {bytes_.data(), dtype_, static_cast<std::int64_t>(bytes_.size()) / num_bytes(dtype_)};
  }

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
};

void add_scalars(std::vector<NamedFactor>& factors, const TensorView& words, double micro_batches) {
  if (words.numel < num_step_scalar_words) return;
  StepScalars s{};
  std::memcpy(&s, words.data, sizeof(s));
  const double scale =
      1 /
      (micro_batches * double{s.inv_scale});  // a power of two, but for the rounding of inv_scale
  factors.push_back({"the loss scale", std::exp2(std::round(std::log2(scale)))});
  for (const NamedFactor& factor : {NamedFactor{"inv_scale", s.inv_scale},
                                    {"beta1", s.beta1},
                                    {"1 - beta1", s.one_minus_beta1},
                                    {"beta2", s.beta2},
                                    {"1 - beta2", s.one_minus_beta2},
                                    {"sqrt(1 - beta2^t)", s.sqrt_bias_correction2},
                                    {"the rate", s.lr},
                                    {"the rate / (1 - beta1^t)", s.step_size}}) {
    factors.push_back(factor);
  }
}

}  // namespace

std::string RankComparison::hint_of(Phase phase, const ExposedBuffer& ours,
                                    const ExposedBuffer& theirs) const {
  const std::vector<Piece> pieces = pieces_of(ours);
  Gathered want(ours.view, pieces);
  Gathered got(theirs.view, pieces);
  HintEvidence evidence;
  evidence.want = want.view();
  evidence.got = got.view();

  std::vector<NamedView> earlier;
  std::deque<Gathered> kept;  // views point into its elements, which never move
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    const TensorView& now = storage_[i].view;
    if (now.numel != theirs.view.numel || now.dtype != theirs.view.dtype) continue;
    const bool same = now.data == theirs.view.data;
    if (!same && storage_[i].ranges != ours.ranges) continue;
    TensorView before = now;
    before.data = const_cast<std::byte*>(stored_[i].data());
    kept.emplace_back(before, pieces);
    if (same) {
      evidence.before = kept.back().view();
    } else if (storage_[i].id != ours.id) {
      earlier.push_back({"the previous " + std::string(name(storage_[i].id)), kept.back().view()});
    }
  }
  for (int p = static_cast<int>(phase); p >= 0;
       --p) {  // the latest buffer is the most likely source
    for (const ExposedBuffer& other : reference_->exposed(static_cast<Phase>(p))) {
      if (other.id == ours.id || other.ranges != ours.ranges || other.view.dtype != ours.view.dtype)
        continue;
      if (other.view.numel != ours.view.numel) continue;
      kept.emplace_back(other.view, pieces);
      evidence.others.push_back({std::string(name(other.id)), kept.back().view()});
    }
  }

  evidence.others.insert(evidence.others.end(), earlier.begin(), earlier.end());

  const auto count = [](std::int64_t number) { return static_cast<double>(number); };
  std::vector<NamedFactor> factors = {
      {"the number of ranks", count(comms_.harness->world_size())},
      {"the number of micro-batches", count(experiment_.config().micro_batches)}};
  if (ours.id == BufferId::step_scalars) return scalars_hint(evidence.want, evidence.got, factors);
  if (ours.id == BufferId::loss_scaler) return scaler_hint(evidence.want, evidence.got);
  if (ours.id == BufferId::found_inf) {
    const std::string held = hint(evidence);
    return (held.empty() ? "" : held + "; ") + flag_hint(evidence.got);
  }
  if (ours.id == BufferId::norm_limbs) evidence.meaning = Meaning::limbs;
  if (ours.id == BufferId::applied_steps || ours.id == BufferId::tensor_steps)
    evidence.meaning = Meaning::count;
  factors.push_back({"the number of instances", count(layout_.instances())});
  factors.push_back({"the ranks of tensor parallelism", count(layout_.grid().tp)});
  evidence.factors = factors;
  for (const ExposedBuffer& buffer : reference_->exposed(Phase::prepare)) {
    if (buffer.id == BufferId::step_scalars) {
      add_scalars(evidence.factors, buffer.view, count(experiment_.config().micro_batches));
    }
  }
  for (const ExposedBuffer& buffer : reference_->exposed(Phase::clip)) {
    if (buffer.id != BufferId::clip_coef || phase < Phase::clip || ours.id == BufferId::clip_coef)
      continue;
    for (std::int64_t group = 0; group < buffer.view.numel; ++group) {
      evidence.factors.push_back(
          {"the clip coefficient" + (group == 0 ? "" : " of " + clip_group_name(group)),
           static_cast<const float*>(buffer.view.data)[group]});
    }
  }
  return hint(evidence);
}

}  // namespace zeroproof::verification
