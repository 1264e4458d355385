#pragma once
// The model of a trace: 16 parameters, and gradients that are drawn.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

inline constexpr int most_traced_ranks = 4;
inline constexpr std::int64_t most_traced_micro_batches = 16;
inline constexpr int most_traced_steps = 8;
inline constexpr int most_traced_log2_scale = 64;

struct TraceSettings {
  int stage = 2;
  int world_size = 2;              ///< 1 to most_traced_ranks
  std::int64_t micro_batches = 4;  ///< 1 to most_traced_micro_batches
  UpdateRule rule = UpdateRule::adamw;
  MatrixOwners matrix_owners = MatrixOwners::every;  ///< of the rule muon
  std::string clip_group =
      {};         ///< glob on tensor names: these have a clip group of their own; "": one norm
  int steps = 2;  ///< 1 to most_traced_steps
  DType param_dtype = DType::bf16;  ///< leaves are fp16 with fp16 parameters, else fp32
  ParamScaling scaling = {};        ///< of e4m3 and e5m2
  int log2_loss_scale = 10;         ///< of the first step, 0 to most_traced_log2_scale
  int overflow_step = 0;            ///< whose last leaf has an infinity; 0: none
  std::uint64_t seed = 2026;        ///< of first parameters and gradients
  std::int64_t bucket_numel = 0;    ///< elements, a multiple of layout_alignment; 0: one bucket
  std::string fault = {};           ///< planted in production, whose values are then shown

  DType grad_dtype() const { return param_dtype == DType::fp16 ? DType::fp16 : DType::fp32; }
};

/// 16 parameters in five tensors and three units, as optimizers see them. Every tensor begins a
/// chunk, so four ranks all own something.
class TracedModel {
 public:
  explicit TracedModel(const TraceSettings& settings);

  const FlatLayout& layout() const { return layout_; }
  const std::vector<FlatRange>& units() const { return units_; }
  static std::string unit_name(std::size_t unit);
  /// The unit that a tensor is of.
  std::size_t unit_of(const TensorSlot& tensor) const;
  /// In the gradient dtype, widened to fp32, padding NaN [padded_numel]. step: counted from 1,
  /// skipped ones too.
  std::vector<float> leaf(int step, std::int64_t micro_batch, int log2_loss_scale) const;
  FullState initial_state() const;

 private:
  std::uint64_t seed_;
  std::int64_t micro_batches_;
  int overflow_step_;
  DType grad_dtype_;
  FlatLayout layout_;
  std::vector<FlatRange> units_;
  std::vector<float> master_, zeros_;  // [padded_numel]
  LossScalerState scaler_;
};

/// An event of a unit while a rank's leaves are computed layer by layer.
struct TracedVisit {
  enum class Event : std::uint8_t { gather, forward, backward, release };
  Event event = Event::gather;
  std::int64_t micro_batch = -1;  ///< -1 on a rank without one in this micro-step
  int unit = 0;
  int place = 0;            ///< as TracedMemory's
  std::int64_t bytes = 0;   ///< of gathered parameters after it
  std::int64_t change = 0;  ///< of these bytes
};
const char* name(TracedVisit::Event event);

/// The leaves of one step of a TracedModel: whole, or in stage 3 layer by layer.
class TracedGrads final : public GradSource, public LayeredModel {
 public:
  using OnVisit = std::function<void(const TracedVisit&)>;

  /// on_leaf, on_visit: called for every leaf, and for every forward and backward visit, before it
  /// is computed.
  TracedGrads(const TracedModel& model, const TraceSettings& settings, int step,
              int log2_loss_scale, std::function<void(std::int64_t)> on_leaf, OnVisit on_visit);

  TensorView micro_batch_grad(std::int64_t micro_batch) override;
  LayeredModel* layers() override { return stage_ == 3 ? this : nullptr; }
  const std::vector<FlatRange>& units() const override { return model_.units(); }
  const std::vector<int>& visits() const override { return order_; }
  void set_scales(Span<const float> /*scale_inv*/) override {
  }  // gradients are drawn and do not depend on it
  void begin(std::int64_t micro_batch) override { on_leaf_(micro_batch_ = micro_batch); }
  void forward(int unit, const TensorView& param) override;
  void backward(int unit, const TensorView& param, const TensorView& grad) override;

 private:
  const TracedModel& model_;
  int stage_, step_, log2_loss_scale_;
  DType grad_dtype_;
  std::function<void(std::int64_t)> on_leaf_;
  OnVisit on_visit_;
  std::int64_t micro_batch_ = 0;
  std::vector<int> order_;
  std::vector<std::byte> leaf_;
};

}  // namespace zeroproof::verification
