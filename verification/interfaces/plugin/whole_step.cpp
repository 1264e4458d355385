#include "verification/interfaces/plugin/whole_step.hpp"

#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/optimizer/state/step_counts.hpp"
#include "cuda/optimizer/state/tensor_steps.hpp"
#include "verification/interfaces/plugin/step_call.hpp"
#include "verification/interfaces/plugin/step_state.hpp"
#include "verification/interfaces/plugin/wire.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::verification {
namespace {

Span<std::byte> bytes_of(const TensorView& view) {
  return {static_cast<std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())};
}

template <class T>
TensorView words_of(std::vector<T>& words, DType dtype) {
  return {words.data(), dtype, static_cast<std::int64_t>(words.size())};
}

PluginOperand operand(std::string name, const TensorView& view, bool read, bool written,
                      std::int64_t per_element = 1) {
  return {std::move(name), view, read, written, per_element};
}

class WholeStep final : public DistributedOptimizer {
 public:
  WholeStep(const OptimizerSetup& setup, std::shared_ptr<Plugin> plugin)
      : setup_(setup),
        plugin_(std::move(plugin)),
        steps_(setup_),
        tables_(step_tables(setup)),
        leaves_(setup.micro_batches * setup.layout->padded_numel(), setup.grad_dtype),
        grad_sum_(setup_, BufferId::grad_sum, DType::fp32),
        state_(setup_),
        grad_norm_(tables_.max_norms.size()),
        clip_coef_(tables_.max_norms.size()) {
    ZP_CHECK(setup.state_formats.plain(), ErrorCode::unavailable,
             "whole steps of a library do not support state or master other than fp32",
             "the interface has only fp32", "leave out the formats, or judge operations");
  }

  void load_state(const FullState& state) override {
    steps_.load(state);
    scaler_ = state.scaler;
    found_inf_ = 0;
    state_.load(state, steps_);
  }

  void run_phase(Phase, GradSource&) override {
    fail(ErrorCode::internal, "a phase of a library's whole step was requested", "it has none",
         "report this as a defect");
  }

  bool step(GradSource& leaves, StepObserver*) override {
    divisor_ = cuda::step_divisor(setup_, leaves);
    steps_.prepare(leaves, scaler_.log2_scale);
    rates_ = group_rates(setup_, applied_steps() + 1);
    collect(leaves);
    state_.gather();
    grad_sum_.poison_whole();
    call_for_all();
    for (const PluginOperand& result : operands()) {
      if (result.written && result.view.numel > 0) setup_.comm->broadcast(bytes_of(result.view), 0);
    }
    grad_sum_.keep_own();
    state_.keep_own();
    return !skipped();
  }

  bool skipped() const override {
    return found_inf_ != 0 && setup_.on_nonfinite == OnNonfinite::skip;
  }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override {
    return static_cast<std::int64_t>(steps_.applied_steps());
  }

 private:
  /// The micro-batch gradients of all ranks, gathered on every rank.
  void collect(GradSource& leaves) {
    const auto size = static_cast<std::size_t>(leaves_.view().num_bytes() / setup_.micro_batches);
    for (std::size_t j = 0; j < tables_.leaf_ranks.size(); ++j) {
      const Span<std::byte> place = bytes_of(leaves_.view()).subspan(j * size, size);
      const auto owner = static_cast<int>(tables_.leaf_ranks[j]);
      if (owner == setup_.comm->rank() && size > 0) {
        std::memcpy(place.data(), leaves.micro_batch_grad(static_cast<std::int64_t>(j)).data, size);
      }
      setup_.comm->broadcast(place, owner);
    }
  }

  /// Rank 0 calls the library. If it fails, every rank throws the same error.
  void call_for_all() {
    struct {
      std::uint64_t failed = 0, status = 0;
      WireText<1024> what{};
    } outcome;
    if (setup_.comm->rank() == 0) {
      try {
        plugin_->call(call());
      } catch (const CandidateFailure& failure) {
        outcome.failed = 1;
        outcome.status = static_cast<std::uint64_t>(failure.status());
        put_text(outcome.what, failure.what());
      }
    }
    setup_.comm->broadcast({reinterpret_cast<std::byte*>(&outcome), sizeof(outcome)}, 0);
    if (outcome.failed != 0)
      throw CandidateFailure(static_cast<Status>(outcome.status), get_text(outcome.what));
  }

  PluginCall call();
  std::vector<PluginOperand> operands();

  TensorView scaler_view() { return {&scaler_, DType::u32, 3}; }
  TensorView found_inf_view() { return {&found_inf_, DType::u32, 1}; }

  const OptimizerSetup setup_;
  const std::shared_ptr<Plugin> plugin_;
  cuda::TensorSteps steps_;
  StepTables tables_;
  GuardedBuffer leaves_;  // [M, padded_numel]
  CutBuffer grad_sum_;
  StepState state_;
  std::vector<std::uint32_t> has_grad_;  // [num_tensors]
  std::int64_t divisor_ = 1;
  std::vector<double> rates_;  // [groups, 2]
  LossScalerState scaler_;
  std::uint32_t found_inf_ = 0;
  std::vector<double> grad_norm_;
  std::vector<float> clip_coef_;
};

/// In the order of the documentation. Buffers that the rule does not keep have no elements; tables of
/// matrices, which came later, exist with the rule muon alone.
std::vector<PluginOperand> WholeStep::operands() {
  const std::int64_t padded_numel = setup_.layout->padded_numel();
  std::vector<PluginOperand> all = {
      operand("leaf_grad", leaves_.view(), true, false, padded_numel),
      operand("leaf_rank", words_of(tables_.leaf_ranks, DType::u32), true, false),
      operand("tensors", words_of(tables_.tensors, DType::u64), true, false, 4),
      operand("shards", words_of(tables_.shards, DType::u64), true, false, 3),
      operand("has_grad", words_of(has_grad_, DType::u32), true, false),
      operand("step_scalars", steps_.scalars_view(), true, false, num_step_scalar_words),
      operand("group_rates", words_of(rates_, DType::fp64), true, false, 2),
      operand("max_norm", words_of(tables_.max_norms, DType::fp64), true, false),
      operand("grad_sum", grad_sum_.whole().view(), false, true),
      operand("found_inf", found_inf_view(), false, true),
      operand("loss_scaler", scaler_view(), true, true),
      operand("grad_norm", words_of(grad_norm_, DType::fp64), false, true),
      operand("clip_coef", words_of(clip_coef_, DType::fp32), false, true)};
  for (const auto& [id, view] : state_.all_whole()) {
    all.push_back(operand(std::string(name(id)), view, true, true));
  }
  all.push_back(operand("tensor_steps", steps_.tensor_steps_view(), true, true));
  all.push_back(operand("applied_steps", steps_.applied_steps_view(), true, true));
  all.push_back(operand("param", state_.param().whole().view(), true, true));
  if (!traits_of(setup_.hyper.rule).matrices) return all;
  all.push_back(
      operand("matrix_parts", words_of(tables_.matrix_parts, DType::u64), true, false, 7));
  all.push_back(operand("polynomials", words_of(tables_.polynomials, DType::fp32), true, false, 3));
  return all;
}

PluginCall WholeStep::call() {
  has_grad_.assign(setup_.layout->tensors().size(), 0);
  for (std::size_t tensor = 0; tensor < has_grad_.size(); ++tensor) {
    Piece piece;
    piece.tensor = static_cast<std::int64_t>(tensor);
    has_grad_[tensor] = steps_.updated(piece) ? 1 : 0;
  }
  StepScalars first{};
  const TensorView scalars = steps_.scalars_view();
  if (scalars.numel > 0) std::memcpy(&first, scalars.data, sizeof(first));
  const std::vector<OpSetting> settings =
      step_settings(setup_, applied_steps() + 1, divisor_, first);
  return {whole_step_name, setup_.exec.num_threads, operands(), settings, false};
}

std::vector<ExposedBuffer> WholeStep::exposed(Phase phase) {
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars, steps_.scalars_view(), {}}};
    case Phase::reduce:
      return {grad_sum_.exposed()};
    case Phase::unscale:
      return {{BufferId::found_inf, found_inf_view(), {}},
              {BufferId::loss_scaler, scaler_view(), {}}};
    case Phase::norm:
      return {{BufferId::grad_norm, words_of(grad_norm_, DType::fp64), {}}};
    case Phase::clip:
      return {{BufferId::clip_coef, words_of(clip_coef_, DType::fp32), {}}};
    case Phase::update:
      for (const CutBuffer& buffer : state_.buffers()) buffers.push_back(buffer.exposed());
      if (steps_.per_tensor())
        buffers.push_back({BufferId::tensor_steps, steps_.tensor_steps_view(), {}});
      buffers.push_back({BufferId::applied_steps, steps_.applied_steps_view(), {}});
      return buffers;
    case Phase::cast:
      return {state_.param().exposed()};
    case Phase::gather:
      return {
          {BufferId::param_full, state_.param_full().view(), {{0, setup_.layout->padded_numel()}}}};
  }
  return buffers;
}

std::vector<ExposedBuffer> WholeStep::storage() {
  std::vector<ExposedBuffer> buffers;
  for (const Phase phase : all_phases) {
    for (ExposedBuffer& buffer : exposed(phase)) buffers.push_back(std::move(buffer));
  }
  return buffers;
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_whole_step(const OptimizerSetup& setup,
                                                      std::shared_ptr<Plugin> plugin) {
  const bool layered = setup.stage == 3 || setup.overlap;
  ZP_CHECK(!layered, ErrorCode::unavailable,
           "whole steps of a plug-in do not support stage 3 and overlap",
           "gradients then arrive layer by layer", "use stages 0, 1 and 2");
  ZP_CHECK(setup.tp == nullptr && setup.cp == 1 && setup.replicas == nullptr,
           ErrorCode::unavailable, "whole steps of a plug-in do not support grids and instances",
           "the interface has only shards of data ranks", "leave out --grid and --instances");
  return std::make_unique<WholeStep>(setup, std::move(plugin));
}

}  // namespace zeroproof::verification
