#pragma once
// Work on a gradient sum in the pass that writes it: the finite check and, where its form allows
// it, the norm (R12).

#include <atomic>
#include <cstdint>
#include <mutex>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/grad_norm.hpp"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda {

/// Partial sum of a norm, in the integers of its form.
struct NormPart {
  NormLimbs limbs;
  std::uint32_t amax = 0;

  void add(const NormPart& other);
};

/// found_inf and the norm of a rank's part of G.
class FoldResult {
 public:
  void clear() {
    found_inf_ = false;
    norm_ = {};
  }

  /// Adds those of some elements, from any thread.
  void add(bool found_inf, const NormPart& norm);
  void set_found_inf() { found_inf_ = true; }

  bool found_inf() const { return found_inf_; }
  const NormPart& norm() const { return norm_; }

 private:
  std::atomic<bool> found_inf_{false};
  std::mutex mutex_;
  NormPart norm_;
};

/// What to compute of every element of a sum, once, and where to add the results. Ranges start at
/// chunk boundaries of tensors. The results outlive it.
struct FoldEpilogue {
  // On the host: of sum * inv_scale.
  float inv_scale = 1.0F;
  NormForm form = NormForm::chunk1024;
  FoldResult* result = nullptr;  ///< null: nothing is computed
  // On a device, in one enqueued pass with the sum.
  device::GradMeasurement measurement = {};
  std::int64_t* num_measured = nullptr;  ///< of elements; null: nothing is computed

  explicit operator bool() const { return result != nullptr; }  ///< on the host

  /// Whether found_inf and the norm take one pass over the elements, of any type.
  bool one_pass() const { return form == NormForm::chunk1024; }

  /// Returns found_inf of a stored sum, and adds its norm if the form finds it in the same pass:
  /// chunk1024 and inf. sum: [numel], fp32 unless one_pass().
  bool find(const Exec& exec, const host::GradStretch& sum, std::int64_t numel,
            NormPart& norm) const;
  /// Adds the results of a range while it is in the caches.
  void apply(const Exec& exec, Span<const float> sum) const;
  /// host::fused_fold and apply() in one pass. Only with one_pass().
  void fold(const Exec& exec, const host::FoldPlan& plan, Span<const host::GradStretch> operands,
            Span<float> sum, bool streamed) const;
};

}  // namespace zeroproof::cuda
