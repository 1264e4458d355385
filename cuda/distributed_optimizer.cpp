#include "cuda/distributed_optimizer.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "common/base/fpenv.hpp"
#include "common/base/guarded_buffer.hpp"
#include "cuda/bucket_reduce.hpp"
#include "cuda/fault.hpp"
#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/limb_deposit.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/optimizer_checks.hpp"

namespace zeroproof::cuda {
namespace {

Span<float> part(const GuardedBuffer& buffer, const Piece& piece) {
  return buffer.as<float>().subspan(static_cast<std::size_t>(piece.local_begin),
                                    static_cast<std::size_t>(piece.numel));
}

TensorView part_of(const TensorView& view, std::int64_t begin, std::int64_t numel) {
  return {static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype), view.dtype, numel};
}

Span<std::byte> bytes(const TensorView& view) {
  return {static_cast<std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())};
}

std::vector<FlatRange> state_ranges(const OptimizerSetup& setup) {
  if (setup.stage > 0) return setup.shards->shard(setup.comm->rank());
  if (setup.layout->padded_numel() == 0) return {};
  return {{0, setup.layout->padded_numel()}};
}

std::int64_t total(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

class ProductionOptimizer final : public DistributedOptimizer {
 public:
  ProductionOptimizer(const OptimizerSetup& setup, StepForm form)
      : setup_(checked(setup)),
        form_(form),
        ranges_(state_ranges(setup_)),
        pieces_(setup_.layout->pieces(ranges_)),
        plans_(plan_buckets(setup_, setup_.stage == 0)),
        reduce_(setup_, plans_),
        grad_(total(ranges_), DType::fp32),
        exp_avg_(total(ranges_), DType::fp32),
        exp_avg_sq_(total(ranges_), DType::fp32),
        master_(total(ranges_), DType::fp32),
        param_shard_(total(ranges_), setup_.param_dtype),
        param_full_(setup_.layout->padded_numel(), setup_.param_dtype) {}

  ProductionOptimizer(const ProductionOptimizer&) = delete;
  ProductionOptimizer& operator=(const ProductionOptimizer&) = delete;

  void load_state(const FullState& state) override;
  void run_phase(Phase phase, LeafSource& leaves) override;
  bool skipped() const override { return found_inf_ != 0; }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  std::string damaged_guard() const override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override { return static_cast<std::int64_t>(applied_steps_); }

 private:
  void prepare();
  void reduce(LeafSource& leaves);
  void unscale();
  void norm();
  void clip();
  void update();
  void update_fused();
  void cast();
  void gather();
  void add_limbs(const NormLimbs& limbs);
  ExposedBuffer sharded(BufferId id, const GuardedBuffer& buffer) const { return {id, buffer.view(), ranges_}; }

  const OptimizerSetup setup_;
  const StepForm form_;
  const std::vector<FlatRange> ranges_;  // what this rank keeps state for
  const host::PieceLoop pieces_;
  const std::vector<BucketPlan> plans_;
  BucketReduce reduce_;
  GuardedBuffer grad_;  // G, then g1, then g (phases); G only (fused)
  GuardedBuffer exp_avg_, exp_avg_sq_, master_, param_shard_, param_full_;
  StepScalars scalars_{};
  LossScalerState scaler_;
  NormLimbs limbs_;
  std::mutex limbs_mutex_;
  std::uint64_t applied_steps_ = 0;
  std::uint32_t found_inf_ = 0;
  bool loaded_ = false;
  double grad_norm_ = 0;
  float clip_coef_ = 1;
};

void ProductionOptimizer::load_state(const FullState& state) {
  require_state(setup_, state);
  pieces_.run(setup_.exec, [&](const Exec&, const Piece& piece) {
    const auto copy = [&](Span<const float> full, const GuardedBuffer& local) {
      const auto values = full.subspan(static_cast<std::size_t>(piece.global_begin), static_cast<std::size_t>(piece.numel));
      std::copy(values.begin(), values.end(), part(local, piece).begin());
    };
    copy(state.master, master_);
    copy(state.exp_avg, exp_avg_);
    copy(state.exp_avg_sq, exp_avg_sq_);
  });
  applied_steps_ = static_cast<std::uint64_t>(state.applied_steps);
  scaler_ = state.scaler;
  cast();
  gather();
  loaded_ = true;
}

void ProductionOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  switch (phase) {
    case Phase::prepare: return prepare();
    case Phase::reduce: return reduce(leaves);
    case Phase::unscale: return unscale();
    case Phase::norm: return norm();
    case Phase::clip: return clip();
    case Phase::update: return form_ == StepForm::fused ? update_fused() : update();
    case Phase::cast: return form_ == StepForm::fused ? void() : cast();
    case Phase::gather: return gather();
  }
}

void ProductionOptimizer::prepare() {
  found_inf_ = 0;
  const std::int64_t divisor = ZP_FAULT(setup_.exec, "Z60-sum-instead-of-mean") ? 1 : setup_.micro_batches;
  scalars_ = host::step_scalars(setup_.hyper, static_cast<std::int64_t>(applied_steps_) + 1, scaler_.log2_scale, divisor);
}

void ProductionOptimizer::reduce(LeafSource& leaves) {
  if (setup_.stage == 2) return reduce_.reduce_strided(leaves, grad_.as<float>());
  reduce_.reduce_contiguous(leaves, grad_.as<float>());
  if (setup_.stage == 1) return;
  for (const BucketPlan& plan : plans_) {  // stage 0: every rank needs all of G
    std::vector<Span<std::byte>> receive;
    for (const FlatRange& slice : plan.slices) {
      receive.push_back(bytes(part_of(grad_.view(), slice.begin, slice.numel())));
    }
    setup_.comm->all_gather(receive[static_cast<std::size_t>(setup_.comm->rank())], receive);
  }
}

void ProductionOptimizer::unscale() {
  std::atomic<bool> found{false};
  limbs_ = NormLimbs{};
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    const auto grad = part(grad_, piece);
    bool here = false;
    if (form_ == StepForm::fused) {
      NormLimbs limbs;
      here = host::fused_finite_and_norm(exec, scalars_.inv_scale, grad, limbs);
      add_limbs(limbs);
    } else {
      here = host::unscale(exec, scalars_.inv_scale, grad, grad);
    }
    if (here) found = true;
  });
  std::uint64_t flag = found ? 1 : 0;
  if (!ZP_FAULT(setup_.exec, "Z53-found-inf-not-global")) {
    setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  }
  found_inf_ = static_cast<std::uint32_t>(flag);
  const LossScalerState before = scaler_;
  scaler_ = host::loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (ZP_FAULT(setup_.exec, "Z58-hysteresis-not-refilled")) {
    scaler_.hysteresis_left = std::min(scaler_.hysteresis_left, before.hysteresis_left);
  }
  if (found_inf_ == 0) return;
  grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  if (ZP_FAULT(setup_.exec, "Z106-counter-advances-on-skip")) ++applied_steps_;
}

void ProductionOptimizer::add_limbs(const NormLimbs& limbs) {
  const std::lock_guard lock(limbs_mutex_);
  host::merge(limbs, limbs_);
}

void ProductionOptimizer::norm() {
  if (form_ == StepForm::phases) {
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      NormLimbs limbs;
      host::grad_norm_accumulate(exec, part(grad_, piece), limbs);
      add_limbs(limbs);
    });
  }
  host::grad_norm_normalise(limbs_);
  if (setup_.stage > 0 || ZP_FAULT(setup_.exec, "Z33-replicated-counted-per-rank")) {
    static_assert(sizeof(NormLimbs) == 23 * sizeof(std::uint64_t));
    auto words = std::bit_cast<std::array<std::uint64_t, 23>>(limbs_);
    setup_.comm->all_reduce(words, IntegerReduce::sum);
    limbs_ = std::bit_cast<NormLimbs>(words);
    host::grad_norm_normalise(limbs_);
  }
  grad_norm_ = host::grad_norm_finish(limbs_);
}

void ProductionOptimizer::clip() {
  clip_coef_ = host::clip_coef(grad_norm_, setup_.hyper.max_norm);
  if (form_ == StepForm::fused) return;
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    host::clip(exec, clip_coef_, part(grad_, piece), part(grad_, piece));
  });
}

void ProductionOptimizer::update() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (ZP_FAULT(exec, "Z78-shard-from-unpadded-count") &&
        piece.local_begin >= setup_.layout->numel() / setup_.comm->world_size()) {
      return;
    }
    if (ZP_FAULT(exec, "Z20-state-zeroed-each-step")) {
      std::ranges::fill(part(exp_avg_, piece), 0.0F);
    }
    host::adamw_update(exec, scalars_, part(grad_, piece), part(master_, piece), part(exp_avg_, piece),
                       part(exp_avg_sq_, piece));
  });
  ++applied_steps_;
}

void ProductionOptimizer::update_fused() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    host::fused_update(exec, scalars_, clip_coef_, part(grad_, piece), part(master_, piece),
                       part(exp_avg_, piece), part(exp_avg_sq_, piece),
                       part_of(param_shard_.view(), piece.local_begin, piece.numel));
  });
  ++applied_steps_;
}

void ProductionOptimizer::cast() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    const auto begin = static_cast<std::size_t>(piece.local_begin);
    const auto count = static_cast<std::size_t>(piece.numel);
    const auto master = part(master_, piece);
    if (setup_.param_dtype == DType::bf16) {
      const auto param = param_shard_.as<bf16>().subspan(begin, count);
      host::cast_to_bf16(exec, master, param);
      if (ZP_FAULT(exec, "Z116-no-master") && loaded_) host::widen_bf16(exec, param, master);
    } else if (setup_.param_dtype == DType::fp16) {
      const auto param = param_shard_.as<fp16>().subspan(begin, count);
      host::cast_to_fp16(exec, master, param);
      if (ZP_FAULT(exec, "Z116-no-master") && loaded_) host::widen_fp16(exec, param, master);
    } else {
      std::ranges::copy(master, part(param_shard_, piece).begin());
    }
  });
}

void ProductionOptimizer::gather() {
  const auto rank = static_cast<std::size_t>(setup_.comm->rank());
  if (setup_.stage == 0) {
    if (param_full_.numel() > 0) std::memcpy(param_full_.data(), param_shard_.data(), bytes(param_full_.view()).size());
    return;
  }
  for (const BucketPlan& plan : plans_) {
    std::vector<Span<std::byte>> receive;
    for (const FlatRange& slice : plan.slices) {
      receive.push_back(bytes(part_of(param_full_.view(), slice.begin, slice.numel())));
    }
    const TensorView mine = part_of(param_shard_.view(), plan.local_begin, plan.slices[rank].numel());
    std::vector<std::byte> stale;
    const bool keep_stale = ZP_FAULT(setup_.exec, "Z84-last-bucket-not-gathered") && &plan == &plans_.back();
    const auto whole = bytes(part_of(param_full_.view(), plan.range.begin, plan.range.numel()));
    if (keep_stale) stale.assign(whole.begin(), whole.end());
    setup_.comm->all_gather(bytes(mine), receive);
    if (keep_stale) std::ranges::copy(stale, whole.begin());
    if (ZP_FAULT(setup_.exec, "Z91-transport-corrupts-a-line") && rank + 1 == plan.slices.size() &&
        receive[0].size() >= 128) {
      for (std::byte& value : receive[0].first(128)) value ^= std::byte{1};
    }
  }
}

std::vector<ExposedBuffer> ProductionOptimizer::exposed(Phase phase) {
  const bool phases = form_ == StepForm::phases;
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars, {&scalars_, DType::u32, sizeof(scalars_) / 4}, {}}};
    case Phase::reduce: return {sharded(BufferId::grad_sum, grad_)};
    case Phase::unscale:
      if (phases) buffers.push_back(sharded(BufferId::unscaled_grad, grad_));
      buffers.push_back({BufferId::found_inf, {&found_inf_, DType::u32, 1}, {}});
      buffers.push_back({BufferId::loss_scaler, {&scaler_, DType::u32, sizeof(scaler_) / 4}, {}});
      return buffers;
    case Phase::norm:
      return {{BufferId::norm_limbs, {&limbs_, DType::u64, sizeof(limbs_) / 8}, {}},
              {BufferId::grad_norm, {&grad_norm_, DType::fp64, 1}, {}}};
    case Phase::clip:
      buffers.push_back({BufferId::clip_coef, {&clip_coef_, DType::fp32, 1}, {}});
      if (phases) buffers.push_back(sharded(BufferId::grad, grad_));
      return buffers;
    case Phase::update:
      return {sharded(BufferId::exp_avg, exp_avg_), sharded(BufferId::exp_avg_sq, exp_avg_sq_),
              sharded(BufferId::master, master_), {BufferId::applied_steps, {&applied_steps_, DType::u64, 1}, {}}};
    case Phase::cast: return {sharded(BufferId::param_shard, param_shard_)};
    case Phase::gather:
      return {{BufferId::param_full, param_full_.view(), {{0, setup_.layout->padded_numel()}}}};
  }
  return buffers;
}

std::vector<ExposedBuffer> ProductionOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (const Phase phase : all_phases) {
    for (ExposedBuffer& buffer : exposed(phase)) {
      const bool seen = std::ranges::any_of(
          buffers, [&](const ExposedBuffer& other) { return other.view.data == buffer.view.data && other.view.numel > 0; });
      if (!seen) buffers.push_back(std::move(buffer));
    }
  }
  return buffers;
}

std::string ProductionOptimizer::damaged_guard() const {
  const std::pair<const char*, const GuardedBuffer*> all[] = {
      {"grad", &grad_},     {"exp_avg", &exp_avg_},         {"exp_avg_sq", &exp_avg_sq_},
      {"master", &master_}, {"param_shard", &param_shard_}, {"param_full", &param_full_}};
  for (const auto& [name, buffer] : all) {
    if (!buffer->guards_intact()) return name;
  }
  return {};
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup, StepForm form) {
  return std::make_unique<ProductionOptimizer>(setup, form);
}

}  // namespace zeroproof::cuda
