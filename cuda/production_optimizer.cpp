#include "cuda/production_optimizer.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "cuda/fault.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/loss_scaler.hpp"
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

/// Device twins stage every call through device memory: whole pieces, one after another.
host::PieceLoop loop_over(const std::vector<Piece>& pieces, StepForm form) {
  return form == StepForm::device ? host::PieceLoop::whole(pieces) : host::PieceLoop(pieces);
}

OptimizerSetup adapted(OptimizerSetup setup, StepForm form) {
  if (form == StepForm::device) setup.exec.num_threads = 1;  // the device has threads of its own
  return setup;
}

}  // namespace

ProductionOptimizer::ProductionOptimizer(const OptimizerSetup& setup, StepForm form)
    : setup_(adapted(checked(setup), form)),
      form_(form),
      ops_(form == StepForm::device ? device_ops() : host_ops()),
      ranges_(state_ranges(setup_)),
      pieces_(loop_over(setup_.layout->pieces(ranges_), form)),
      plans_(plan_buckets(setup_, setup_.stage == 0)),
      reduce_(setup_, plans_, ops_),
      grad_(total(ranges_), DType::fp32),
      master_(total(ranges_), DType::fp32),
      param_shard_(total(ranges_), setup_.param_dtype),
      param_full_(setup_.layout->padded_numel(), setup_.param_dtype),
      state_(setup_.hyper, total(ranges_)),
      steps_(setup_),
      global_norm_(setup_.hyper.norm) {}

void ProductionOptimizer::load_state(const FullState& state) {
  require_state(setup_, state);
  pieces_.run(setup_.exec, [&](const Exec&, const Piece& piece) {
    const auto copy = [&](Span<const float> full, Span<float> local) {
      const auto values =
          full.subspan(static_cast<std::size_t>(piece.global_begin), static_cast<std::size_t>(piece.numel));
      std::copy(values.begin(), values.end(), local.begin());
    };
    copy(state.master, part(master_, piece));
    for (std::size_t i = 0; i < state_buffers.size(); ++i) {
      if (state_.kept(i)) copy(state.*state_buffers[i].full, state_.part(i, piece));
    }
  });
  steps_.load(state);
  scaler_ = state.scaler;
  found_inf_ = 0;
  cast();
  gather();
  loaded_ = true;
}

void ProductionOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "no state was loaded before phase " + std::string(name(phase)),
           "masters and moments are still poisoned", "call load_state first");
  ZP_CHECK(!skipped() || !skipped_on_overflow(phase), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " was called in a skipped step",
           "an overflow must leave every bit of the state alone", "begin the next step with prepare");
  switch (phase) {
    case Phase::prepare:
      return prepare(leaves);
    case Phase::reduce:
      return reduce(leaves);
    case Phase::unscale:
      return unscale();
    case Phase::norm:
      return norm();
    case Phase::clip:
      return clip();
    case Phase::update:
      return form_ == StepForm::fused ? update_fused() : update();
    case Phase::cast:
      return form_ == StepForm::fused ? void() : cast();
    case Phase::gather:
      return gather();
  }
}

void ProductionOptimizer::prepare(LeafSource& leaves) {
  if (!ZP_FAULT(setup_.exec, "found-inf-not-cleared")) found_inf_ = 0;
  steps_.prepare(leaves, scaler_.log2_scale);
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
  global_norm_.clear();
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    const auto grad = part(grad_, piece);
    const bool here = form_ == StepForm::fused ? fused_unscale(exec, steps_.inv_scale(), grad, global_norm_)
                                               : ops_.unscale(exec, steps_.inv_scale(), grad, grad);
    if (here) found = true;
  });
  std::uint64_t flag = found ? 1 : 0;
  if (ZP_FAULT(setup_.exec, "Z59-overflow-unchecked-in-bf16") && setup_.param_dtype == DType::bf16) flag = 0;
  if (!ZP_FAULT(setup_.exec, "Z53-found-inf-not-global")) {
    setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  }
  ZP_CHECK(flag == 0 || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(steps_.applied_steps() + 1) + " has a gradient that is not finite",
           "the run was told to stop then (on_nonfinite = error), and no state has changed",
           "look at the inputs of that step, lower the loss scale, or choose on_nonfinite = skip");
  found_inf_ = static_cast<std::uint32_t>(flag);
  const LossScalerState before = scaler_;
  scaler_ = host::loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (ZP_FAULT(setup_.exec, "Z58-hysteresis-not-refilled")) {
    scaler_.hysteresis_left = std::min(scaler_.hysteresis_left, before.hysteresis_left);
  }
  if (!skipped()) return;
  if (!ZP_FAULT(setup_.exec, "skip-keeps-norm")) {
    grad_norm_ = std::numeric_limits<double>::quiet_NaN();
    clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  }
  if (ZP_FAULT(setup_.exec, "Z106-counter-advances-on-skip"))
    steps_.set_applied_steps(steps_.applied_steps() + 1);
}

void ProductionOptimizer::norm() {
  // The fused form found the chunks' sums together with found_inf; the other norm forms take a pass of their own.
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (form_ == StepForm::fused) {
      fused_norm(exec, steps_.inv_scale(), part(grad_, piece), global_norm_);
    } else {
      global_norm_.add(ops_, exec, part(grad_, piece));
    }
  });
  // In stage 0 every rank has counted every element.
  const bool sharded = setup_.stage > 0 || ZP_FAULT(setup_.exec, "Z33-replicated-counted-per-rank");
  grad_norm_ = global_norm_.finish(sharded ? setup_.comm : nullptr);
}

void ProductionOptimizer::clip() {
  clip_coef_ = host::clip_coef(grad_norm_, setup_.hyper.max_norm);
  if (form_ == StepForm::fused) return;
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    ops_.clip(exec, clip_coef_, part(grad_, piece), part(grad_, piece));
    if (setup_.hyper.clip_value) {
      ops_.clip_value(exec, static_cast<float>(*setup_.hyper.clip_value), part(grad_, piece));
    }
  });
}

void ProductionOptimizer::update() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (ZP_FAULT(exec, "Z78-shard-from-unpadded-count") &&
        piece.local_begin >= setup_.layout->numel() / setup_.comm->world_size()) {
      return;
    }
    if (ZP_FAULT(exec, "Z20-state-zeroed-each-step")) std::ranges::fill(state_.part(0, piece), 0.0F);
    if (!steps_.updated(piece)) return;
    state_.update(ops_, exec, setup_.hyper, steps_.scalars(piece), piece, part(grad_, piece),
                  part(master_, piece));
  });
  steps_.advance();
}

void ProductionOptimizer::update_fused() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (!steps_.updated(piece)) return;
    const TensorView param = part_of(param_shard_.view(), piece.local_begin, piece.numel);
    const auto* before = static_cast<const std::byte*>(param.data);
    const bool keep = ZP_FAULT(exec, "fused-cast-of-old-master");
    const std::vector<std::byte> stale(before, before + (keep ? param.num_bytes() : 0));
    const float coef = ZP_FAULT(exec, "fused-clip-forgotten") ? 1.0F : clip_coef_;
    state_.update_fused(exec, setup_.hyper, steps_.scalars(piece), coef, piece, part(grad_, piece),
                        part(master_, piece), param);
    std::ranges::copy(stale, static_cast<std::byte*>(param.data));
  });
  steps_.advance();
}

void ProductionOptimizer::cast_piece(const Exec& exec, const Piece& piece) {
  const auto begin = static_cast<std::size_t>(piece.local_begin);
  const auto count = static_cast<std::size_t>(piece.numel);
  const auto master = part(master_, piece);
  if (setup_.param_dtype == DType::fp32) {
    std::ranges::copy(master, part(param_shard_, piece).begin());
  } else if (setup_.param_dtype == DType::fp16) {
    const auto param = param_shard_.as<fp16>().subspan(begin, count);
    ops_.cast_to_fp16(exec, master, param);
    if (ZP_FAULT(exec, "Z116-no-master") && loaded_) ops_.widen_fp16(exec, param, master);
  } else {
    const auto param = param_shard_.as<bf16>().subspan(begin, count);
    if (setup_.param_rounding == ParamRounding::stochastic) {
      const auto first = static_cast<std::uint64_t>(piece.global_begin);
      ops_.stochastic_cast_to_bf16(exec, {setup_.seed, steps_.applied(piece), first}, master, param);
    } else {
      ops_.cast_to_bf16(exec, master, param);
    }
    if (ZP_FAULT(exec, "Z116-no-master") && loaded_) ops_.widen_bf16(exec, param, master);
  }
}

void ProductionOptimizer::cast() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) { cast_piece(exec, piece); });
}

void ProductionOptimizer::gather() {
  const auto rank = static_cast<std::size_t>(setup_.comm->rank());
  if (setup_.stage == 0) {
    if (param_full_.numel() > 0)
      std::memcpy(param_full_.data(), param_shard_.data(), bytes(param_full_.view()).size());
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

}  // namespace zeroproof::cuda
