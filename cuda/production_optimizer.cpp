#include "cuda/production_optimizer.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "common/base/error.hpp"
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
#if defined(ZP_WITH_FAULTS)
  setup = Saboteur::believed(setup);
#endif
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
  static_cast<void>(ZP_SABOTAGE(before(Phase::gather)));
  if (!ZP_SABOTAGE(instead_of_gather_after_load())) gather();
  static_cast<void>(ZP_SABOTAGE(after(Phase::gather, nullptr)) || ZP_SABOTAGE(after_load(state)));
  loaded_ = true;
}

void ProductionOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "no state was loaded before phase " + std::string(name(phase)),
           "masters and moments are still poisoned", "call load_state first");
  ZP_CHECK(!skipped() || !skipped_on_overflow(phase), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " was called in a skipped step",
           "an overflow must leave every bit of the state alone", "begin the next step with prepare");
  static_cast<void>(ZP_SABOTAGE(before(phase)));
  execute(phase, leaves);
  static_cast<void>(ZP_SABOTAGE(after(phase, &leaves)));
}

void ProductionOptimizer::execute(Phase phase, LeafSource& leaves) {
  switch (phase) {
    case Phase::prepare:
      return prepare(leaves);
    case Phase::reduce:
#if defined(ZP_WITH_FAULTS)
      return reduce(saboteur_->leaves(leaves));
#else
      return reduce(leaves);
#endif
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
  found_inf_ = 0;
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
    const bool here = form_ == StepForm::fused ? global_norm_.fused_unscale(exec, steps_.inv_scale(), grad)
                                               : ops_.unscale(exec, steps_.inv_scale(), grad, grad);
    if (here) found = true;
  });
  std::uint64_t flag = found ? 1 : 0;
  setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = static_cast<std::uint32_t>(flag);
  ZP_CHECK(flag == 0 || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(steps_.applied_steps() + 1) + " has a gradient that is not finite",
           "the run was told to stop then (on_nonfinite = error), and no state has changed",
           "look at the inputs of that step, lower the loss scale, or choose on_nonfinite = skip");
  scaler_ = host::loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (!skipped()) return;
  grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  clip_coef_ = std::numeric_limits<float>::quiet_NaN();
}

void ProductionOptimizer::norm() {
  // The fused form found the chunks' sums together with found_inf; the other norm forms take a pass of their own.
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (form_ == StepForm::fused) {
      global_norm_.fused_norm(exec, steps_.inv_scale(), part(grad_, piece));
    } else {
      global_norm_.add(ops_, exec, part(grad_, piece));
    }
  });
  // In stage 0 every rank has counted every element.
  grad_norm_ = global_norm_.finish(setup_.stage > 0 ? setup_.comm : nullptr);
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
    if (!steps_.updated(piece) || ZP_SABOTAGE(instead_of_update(exec, piece))) return;
    state_.update(ops_, exec, setup_.hyper, steps_.scalars(piece), piece, part(grad_, piece),
                  part(master_, piece));
  });
  steps_.advance();
}

void ProductionOptimizer::update_fused() {
  pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (!steps_.updated(piece)) return;
    const TensorView param = part_of(param_shard_.view(), piece.local_begin, piece.numel);
    host::FusedOptions options = host::fused_options(setup_.hyper);
    if (setup_.param_rounding == ParamRounding::stochastic) options.draw = draw(piece, 1);
    host::fused_update(exec, options, steps_.scalars(piece), clip_coef_, part(grad_, piece),
                       state_.fused(piece, part(master_, piece)), param);
  });
  steps_.advance();
}

RoundingDraw ProductionOptimizer::draw(const Piece& piece, std::uint64_t updates_ahead) const {
  return {setup_.seed, steps_.applied(piece) + updates_ahead, static_cast<std::uint64_t>(piece.global_begin)};
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
  } else {
    const auto param = param_shard_.as<bf16>().subspan(begin, count);
    if (setup_.param_rounding == ParamRounding::stochastic) {
      ops_.stochastic_cast_to_bf16(exec, draw(piece, 0), master, param);
    } else {
      ops_.cast_to_bf16(exec, master, param);
    }
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
    setup_.comm->all_gather(bytes(mine), receive);
  }
}

}  // namespace zeroproof::cuda
