#include "cuda/optimizer/host/host_step.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<std::unique_ptr<ScaledCast>> scaled_casts(const RankShard& shard,
                                                      const KernelTable& ops) {
  std::vector<std::unique_ptr<ScaledCast>> casts;
  for (const RankShard& one : scaled_shards(shard))
    casts.push_back(std::make_unique<ScaledCast>(one, ops));
  return casts;
}

}  // namespace

HostStep::HostStep(RankShard& shard, bool fused, const KernelTable& ops)
    : setup_(shard.setup),
      fused_(fused),
      ops_(ops),
      ranges_(shard.ranges),
      pieces_(shard.pieces),
      grad_(shard.grad),
      master_(shard.master),
      param_store_(shard.params),
      state_(shard.state),
      split_(shard.split),
      tiles_(shard.tiles),
      sum_(grad_, ops_),
      steps_(setup_),
      scaled_(scaled_casts(shard, ops_)),
      global_norm_(setup_.hyper.norm, setup_.clip_groups.count()),
      trust_(setup_),
      matrices_(shard, ops_),
      max_norms_(max_norms_of(setup_.clip_groups, setup_.hyper.max_norm)),
      grad_norm_(max_norms_.size(), 0.0),
      clip_coef_(max_norms_.size(), 1.0F) {}

void HostStep::take_counters(const FullState& state) {
  steps_.load(state);
  scaler_ = state.scaler;
  found_inf_ = 0;
  trust_.reset();
  matrices_.reset();
}

void HostStep::load(const FullState& state) {
  take_counters(state);
  cast_loaded(state);
}

void HostStep::load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                           const StateBlocks::Change& read) {
  take_counters(state);
  tiles_->load(setup_.exec, of_codes, read, round_masters(0));
  cast_loaded(state);
}

void HostStep::prepare(GradSource& leaves) {
  found_inf_ = 0;
  steps_.prepare(leaves, scaler_.log2_scale);
}

GradTarget HostStep::grad_target() {
  GradTarget target{grad_->as<float>()};
  target.leaf_may_stay = fused_;  // phases change the gradient in place
  // In stage 0 on several ranks most of G arrives from others, and is checked after it has arrived.
  const bool arrives = setup_.stage == 0 && setup_.comm->world_size() > 1;
  if (fused_ && !arrives && max_norms_.size() == 1)
    target.epilogue = {steps_.inv_scale(), setup_.hyper.norm, &sum_.result()};
  return target;
}

void HostStep::end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) {
  if (leaf) sum_.is_leaf(*leaf);
  if (!leaf && target.epilogue) sum_.set_checked();
}

void HostStep::overwritten(Phase phase) {
  if (phase == Phase::reduce) sum_.replaced();
  if (phase != Phase::update) return;
  for (const auto& cast : scaled_) cast->forget();
}

bool HostStep::unscale_piece(const Exec& exec, const Piece& piece, NormPart& norm) {
  const FoldEpilogue of_sum{steps_.inv_scale(), setup_.hyper.norm};
  if (!fused_) {
    const auto grad = part(grad_, piece);
    return ops_.unscale(exec, of_sum.inv_scale, grad, grad);
  }
  if (of_sum.one_pass()) return of_sum.find(exec, sum_.stretch(piece), piece.numel, norm);
  bool found_inf = false;
  sum_.read(exec, piece, [&](const Piece& stretch, Span<const float> sum) {
    found_inf |= of_sum.find(exec, {sum.data(), DType::fp32}, stretch.numel, norm);
  });
  return found_inf;
}

void HostStep::unscale() {
  global_norm_.clear();
  if (sum_.checked()) {
    global_norm_.add(sum_.result().norm(), 0);
  } else {
    pieces_.sum_joined<GlobalNorm::Parts>(
        setup_.exec, [&](const Piece& a, const Piece& b) { return same_clip_group(a, b); },
        [&](const Exec& exec, const Piece& piece, GlobalNorm::Parts& norms) {
          if (unscale_piece(exec, piece, norms.of(clip_group(piece))))
            sum_.result().set_found_inf();
        },
        [&](GlobalNorm::Parts& norms) { global_norm_.add(norms); });
  }
  std::uint64_t flag = sum_.result().found_inf() ? 1 : 0;
  all_reduce_step(setup_, {&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = static_cast<std::uint32_t>(flag);
  ZP_CHECK(
      flag == 0 || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
      "step " + std::to_string(steps_.applied_steps() + 1) + " has a gradient that is not finite",
      "on_nonfinite = error stops the run here; no state has changed",
      "check the inputs of that step, lower the loss scale, or choose on_nonfinite = skip");
  scaler_ = host::loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (!skipped()) return;
  std::ranges::fill(grad_norm_, std::numeric_limits<double>::quiet_NaN());
  std::ranges::fill(clip_coef_, std::numeric_limits<float>::quiet_NaN());
}

void HostStep::norm() {
  // The fused form computed the chunks' sums together with found_inf; the other norm forms take a
  // separate pass.
  if (!fused_ || global_norm_.needs_fused_norm()) {
    pieces_.sum_joined<GlobalNorm::Parts>(
        setup_.exec,
        [&](const Piece& a, const Piece& b) {
          return counted(a) == counted(b) && same_clip_group(a, b);
        },
        [&](const Exec& exec, const Piece& piece, GlobalNorm::Parts& norms) {
          if (!counted(piece)) return;
          NormPart& norm = norms.of(clip_group(piece));
          if (!fused_) return global_norm_.add(ops_, exec, part(grad_, piece), norm);
          sum_.read(exec, piece, [&](const Piece&, Span<const float> sum) {
            global_norm_.fused_norm(exec, steps_.inv_scale(), sum, norm);
          });
        },
        [&](GlobalNorm::Parts& norms) { global_norm_.add(norms); });
  }
  // In stage 0 every rank has counted every element, so the ranks of an instance are not combined.
  global_norm_.finish(setup_.stage > 0 ? setup_.comm : nullptr, setup_.tp, grad_norm_);
}

bool HostStep::counted(const Piece& piece) const {
  return tp_rank(setup_) == 0 || !tp_replicated(setup_, piece.tensor);
}

void HostStep::clip() {
  for (std::size_t group = 0; group < max_norms_.size(); ++group) {
    clip_coef_[group] = host::clip_coef(grad_norm_[group], max_norms_[group]);
  }
  if (fused_) return;
  const auto can_join = [&](const Piece& a, const Piece& b) { return same_clip_group(a, b); };
  pieces_.run_joined(setup_.exec, can_join, [&](const Exec& exec, const Piece& piece) {
    ops_.clip(exec, clip_coef_[clip_group(piece)], part(grad_, piece), part(grad_, piece));
    if (setup_.hyper.clip_value) {
      ops_.clip_value(exec, static_cast<float>(*setup_.hyper.clip_value), part(grad_, piece));
    }
  });
}

void HostStep::prepare_update() {
  if (matrices_) {
    move_momenta();
    matrices_.orthogonalise(steps_);
  }
  if (!trust_) return;
  collect_trust_norms();
  trust_.finish(ops_, setup_.stage > 0 ? setup_.comm : nullptr, setup_.tp, steps_);
}

void HostStep::collect_trust_norms() {
  const auto wanted = [&](const Piece& piece) { return steps_.updated(piece) && counted(piece); };
  const auto add = [&](const Exec& exec, const Piece& piece, const host::FusedState& state,
                       TrustRatios::Part& norms) {
    add_norms_of(exec, piece, state, norms.of(piece.tensor));
  };
  if (tiles_ != nullptr) return collect_tile_norms(wanted, add);
  updated().sum_joined<TrustRatios::Part>(
      setup_.exec, [](const Piece& a, const Piece& b) { return a.tensor == b.tensor; },
      [&](const Exec& exec, const Piece& piece, TrustRatios::Part& norms) {
        if (wanted(piece)) add(exec, piece, state_of(piece), norms);
      },
      [&](const TrustRatios::Part& norms) { trust_.add(norms); });
}

void HostStep::add_norms_of(const Exec& exec, const Piece& piece, const host::FusedState& state,
                            TrustNorms& norms) {
  const host::GradStretch grad = grad_of(piece);
  const StepScalars& scalars = steps_.scalars(piece);
  if (fused_) {
    return host::fused_lamb_norms(exec, host::fused_options(setup_.hyper), scalars,
                                  clip_coef_[clip_group(piece)], grad, state, norms);
  }
  ops_.lamb_norms(exec, {setup_.hyper.maximize}, scalars,
                  {static_cast<const float*>(grad.data), state.master.size()}, state.master,
                  state.slots[StateSlot::exp_avg], state.slots[StateSlot::exp_avg_sq], norms);
}

void HostStep::move_momenta() {
  const auto wanted = [&](const Piece& piece) {
    return matrices_.has(piece) && steps_.updated(piece);
  };
  const auto move = [&](const Exec& exec, const Piece& piece, const host::FusedState& state) {
    move_momentum(exec, piece, state.slots[StateSlot::exp_avg]);
  };
  if (tiles_ != nullptr) {
    return store_updates(wanted, move, [](const Piece& /*piece*/, BufferId buffer) {
      return buffer == BufferId::exp_avg;
    });
  }
  updated().run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
    if (wanted(piece)) move(exec, piece, state_of(piece));
  });
}

void HostStep::move_momentum(const Exec& exec, const Piece& piece, Span<float> exp_avg) const {
  const MuonMomentumOptions options{setup_.hyper.nesterov, setup_.hyper.maximize};
  const StepScalars& scalars = steps_.scalars(piece);
  const auto move = [&](const Piece& range, Span<const float> grad) {
    const auto begin = static_cast<std::size_t>(range.local_begin - piece.local_begin);
    ops_.muon_momentum(exec, options, scalars, grad, exp_avg.subspan(begin, grad.size()),
                       matrices_.elements(range));
  };
  if (!fused_) {
    const auto* const grad = static_cast<const float*>(grad_of(piece).data);
    return move(piece, {grad, static_cast<std::size_t>(piece.numel)});
  }
  sum_.read(exec, piece, [&](const Piece& range, Span<const float> sum) {
    const Span<float> grad = matrices_.elements(range);
    ops_.unscale(exec, scalars.inv_scale, sum, grad);
    ops_.clip(exec, clip_coef_[clip_group(range)], grad, grad);
    if (setup_.hyper.clip_value)
      ops_.clip_value(exec, static_cast<float>(*setup_.hyper.clip_value), grad);
    move(range, grad);
  });
}

void HostStep::update_matrix(const Exec& exec, const Piece& piece, Span<float> master,
                             bool casts) const {
  matrices_.update(exec, steps_.scalars(piece), piece, master);
  if (casts) cast_values(exec, piece, master, 1);
}

void HostStep::update_pieces() {
  const auto can_join = [&](const Piece& a, const Piece& b) {
    return steps_.same_scalars(a, b) && trust_.same(a, b) && matrices_.same(a, b);
  };
  updated().run_joined(setup_.exec, can_join, [&](const Exec& exec, const Piece& piece) {
    if (steps_.updated(piece)) update_piece(exec, piece);
  });
  steps_.advance();
}

void HostStep::update_piece(const Exec& exec, const Piece& piece) {
  if (matrices_.has(piece)) return update_matrix(exec, piece, state_of(piece).master, false);
  const auto* grad =
      static_cast<const float*>(grad_of(piece).data);  // phases store g in the buffer
  update_by_rule(ops_, exec, setup_.hyper, steps_.scalars(piece),
                 {grad, static_cast<std::size_t>(piece.numel)}, state_of(piece), trust_.of(piece));
}

host::FusedState HostStep::state_of(const Piece& piece) const {
  return state_.fused(here(piece), part(master_, here(piece)));
}

StepDecision HostStep::decision() const {
  StepDecision decision = steps_.decision();
  decision.clip_coef = clip_coef_;
  decision.leaf = sum_.leaf();
  decision.trust_ratio = trust_.values();
  return decision;
}

std::vector<ExposedBuffer> HostStep::exposed(Phase phase) {
  const bool phases = !fused_;
  const auto sharded = [&](BufferId id, const GuardedBuffer& buffer) {
    return ExposedBuffer{id, buffer.view(), ranges_};
  };
  const auto clip_groups = static_cast<std::int64_t>(max_norms_.size());
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars, steps_.scalars_view(), {}}};
    case Phase::reduce:
      if (!sum_.in_buffer()) {
        pieces_.run(setup_.exec,
                    [&](const Exec& exec, const Piece& piece) { sum_.write_out(exec, piece); });
        sum_.set_in_buffer();
      }
      return {sharded(BufferId::grad_sum, *grad_)};
    case Phase::unscale:
      if (phases) buffers.push_back(sharded(BufferId::unscaled_grad, *grad_));
      buffers.push_back({BufferId::found_inf, {&found_inf_, DType::u32, 1}, {}});
      buffers.push_back({BufferId::loss_scaler, {&scaler_, DType::u32, sizeof(scaler_) / 4}, {}});
      return buffers;
    case Phase::norm:
      return {global_norm_.exposed(),
              {BufferId::grad_norm, {grad_norm_.data(), DType::fp64, clip_groups}, {}}};
    case Phase::clip:
      buffers.push_back({BufferId::clip_coef, {clip_coef_.data(), DType::fp32, clip_groups}, {}});
      if (phases) buffers.push_back(sharded(BufferId::grad, *grad_));
      return buffers;
    case Phase::update:
      buffers = state_.exposed(ranges_);
      buffers.push_back(sharded(BufferId::master, *master_));
      buffers.push_back({BufferId::applied_steps, steps_.applied_steps_view(), {}});
      if (steps_.per_tensor())
        buffers.push_back({BufferId::tensor_steps, steps_.tensor_steps_view(), {}});
      if (trust_) buffers.push_back(trust_.exposed());
      if (matrices_) buffers.push_back(matrices_.exposed(ranges_));
      return buffers;
    case Phase::cast:
    case Phase::gather:
      break;
  }
  return buffers;
}

MakeLocalStep host_steps(bool fused, const KernelTable& ops) {
  return [fused, &ops](RankShard& shard) { return std::make_unique<HostStep>(shard, fused, ops); };
}

// Computation of parameters from masters on the host: casts, their random words, and the fused
// pass.

template <class Body>
void HostStep::for_draws(const Piece& piece, const Body& body) const {
  if (setup_.placement.empty()) return body(piece);
  const TensorPlacement& place = setup_.placement[piece.tensor];
  if (place.row_numel == place.row_stride) return body(piece);
  for (std::int64_t begin = 0; begin < piece.numel;) {
    const Piece row =
        piece.part(begin, place.row_numel - (piece.tensor_begin + begin) % place.row_numel);
    body(row);
    begin += row.numel;
  }
}

void HostStep::update_fused() {
  host::FusedOptions options = host::fused_options(setup_.hyper);
  // Of all blocks of the shard together, wherever their masters are.
  options.stream = host::streams_past_caches(grad_->numel() * num_bytes(setup_.param_dtype));
  options.casts = scaled_.empty();
  const bool collects = !scaled_.empty() && scaled_.front()->collects();
  if (collects)
    for (const auto& cast : scaled_) cast->begin_collecting();
  const auto update = [&](const Exec& exec, const host::FusedOptions& with, const Piece& piece) {
    host::fused_update(exec, with, steps_.scalars(piece), clip_coef_[clip_group(piece)],
                       grad_of(piece), state_of(piece),
                       with.casts ? params_of(piece) : TensorView{});
    if (collects)
      for (const auto& cast : scaled_) cast->collect(exec, piece);
  };
  const auto can_join = [&](const Piece& a, const Piece& b) {
    return steps_.same_scalars(a, b) && can_round_together(a, b) && same_clip_group(a, b) &&
           trust_.same(a, b) && matrices_.same(a, b);
  };
  updated().run_joined(setup_.exec, can_join, [&](const Exec& exec, const Piece& piece) {
    if (!steps_.updated(piece)) return;
    if (matrices_.has(piece)) {
      update_matrix(exec, piece, state_of(piece).master, options.casts);
      if (collects)
        for (const auto& cast : scaled_) cast->collect(exec, piece);
      return;
    }
    host::FusedOptions with = options;
    with.trust_ratio = trust_.of(piece);
    if (setup_.param_rounding == ParamRounding::nearest) return update(exec, with, piece);
    for_draws(piece, [&](const Piece& row) {
      with.draw = draw(row, 1);
      update(exec, with, row);
    });
  });
  steps_.advance();
}

void HostStep::update_tiles() {
  host::FusedOptions options = host::fused_options(setup_.hyper);
  options.stream = false;  // a tile is small, and read again in the same pass
  options.casts = scaled_.empty();
  const auto update = [&](const Exec& exec, const Piece& piece, const host::FusedState& state) {
    if (matrices_.has(piece))
      return update_matrix(exec, piece, state.master, fused_ && options.casts);
    if (!fused_) {
      const auto* grad = static_cast<const float*>(grad_of(piece).data);
      return update_by_rule(ops_, exec, setup_.hyper, steps_.scalars(piece),
                            {grad, static_cast<std::size_t>(piece.numel)}, state, trust_.of(piece));
    }
    host::FusedOptions with = options;
    with.trust_ratio = trust_.of(piece);
    if (setup_.param_rounding == ParamRounding::nearest) {
      return host::fused_update(exec, with, steps_.scalars(piece), clip_coef_[clip_group(piece)],
                                grad_of(piece), state,
                                with.casts ? params_of(piece) : TensorView{});
    }
    for_draws(piece, [&](const Piece& row) {
      with.draw = draw(row, 1);
      host::fused_update(exec, with, steps_.scalars(row), clip_coef_[clip_group(row)], grad_of(row),
                         state.part(row.local_begin - piece.local_begin, row.numel),
                         params_of(row));
    });
  };
  store_updates([&](const Piece& piece) { return steps_.updated(piece); }, update,
                [&](const Piece& piece, BufferId buffer) {  // matrices have stored their momentum
                  return buffer == BufferId::master || !matrices_.has(piece);
                });
  steps_.advance();
}

StateBlocks::Round HostStep::round_masters(std::uint64_t updates_ahead) const {
  return [this, updates_ahead](const Exec& exec, const Piece& piece, Span<const float> values,
                               Span<bf16> master) {
    if (setup_.param_rounding == ParamRounding::nearest)
      return ops_.cast_to_bf16(exec, values, master);
    for_draws(piece, [&](const Piece& row) {
      const auto at = static_cast<std::size_t>(row.local_begin - piece.local_begin);
      const auto count = static_cast<std::size_t>(row.numel);
      ops_.stochastic_cast_to_bf16(exec, draw(row, updates_ahead), values.subspan(at, count),
                                   master.subspan(at, count));
    });
  };
}

RoundingDraw HostStep::draw(const Piece& piece, std::uint64_t updates_ahead) const {
  const auto tensor = static_cast<std::size_t>(piece.tensor);
  const bool local = setup_.placement.empty();
  const std::int64_t index =
      local ? piece.global_begin : setup_.placement[tensor].global(piece.tensor_begin);
  return {setup_.seed, steps_.applied(piece) + updates_ahead, static_cast<std::uint64_t>(index)};
}

void HostStep::cast_piece(const Exec& exec, const Piece& piece) {
  if (setup_.state_formats.master == MasterFormat::bf16) {  // it has been rounded
    std::ranges::copy(bf16_master_of(piece), params_as<bf16>(piece).begin());
    return;
  }
  cast_values(exec, piece, state_of(piece).master, 0);
}

void HostStep::cast_values(const Exec& exec, const Piece& piece, Span<const float> master,
                           std::uint64_t updates_ahead) const {
  if (setup_.param_rounding == ParamRounding::nearest) {
    visit_param_format(setup_.param_dtype, [&](auto format) {
      using T = typename decltype(format)::type;
      ops_.narrow(exec, master, params_as<T>(piece));
    });
    return;
  }
  for_draws(piece, [&](const Piece& row) {
    const auto begin = static_cast<std::size_t>(row.local_begin - piece.local_begin);
    ops_.stochastic_cast_to_bf16(exec, draw(row, updates_ahead),
                                 master.subspan(begin, static_cast<std::size_t>(row.numel)),
                                 params_as<bf16>(row));
  });
}

bool HostStep::can_round_together(const Piece& a, const Piece& b) const {
  if (setup_.param_rounding == ParamRounding::nearest) return true;
  // Neighbours on a TP rank need not be neighbours in the undistributed model.
  return setup_.placement.empty() && steps_.applied(a) == steps_.applied(b);
}

void HostStep::cast_loaded(const FullState& state) {
  if (scaled_.empty()) return cast_pieces();
  for (const auto& cast : scaled_) cast->load(state);
}

void HostStep::cast() {
  for (const auto& cast : scaled_)
    cast->cast([this](std::int64_t tensor) { return steps_.updated(tensor); });
  if (!fused_ && scaled_.empty()) cast_pieces();  // the fused update has stored the parameters
}

void HostStep::cast_pieces() {
  const auto can_join = [&](const Piece& a, const Piece& b) { return can_round_together(a, b); };
  updated().run_joined(setup_.exec, can_join,
                       [&](const Exec& exec, const Piece& piece) { cast_piece(exec, piece); });
}

}  // namespace zeroproof::cuda
