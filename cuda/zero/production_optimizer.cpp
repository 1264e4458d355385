#include "cuda/zero/production_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/step/setup_agreement.hpp"
#include "cuda/exchange/micro_batches.hpp"
#include "cuda/exchange/step_ranks.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/zero/optimizer_checks.hpp"

namespace zeroproof::cuda {
namespace {

/// Device twins stage every call through device memory: whole pieces, one after another.
host::PieceLoop loop_over(const std::vector<Piece>& pieces, Space space) {
  return space == Space::device ? host::PieceLoop::whole(pieces) : host::PieceLoop(pieces);
}

OptimizerSetup adapt(OptimizerSetup setup, Space space) {
  validate(setup);
  if (space == Space::device) setup.exec.num_threads = 1;  // the device has threads of its own
  return setup;
}

/// Collective over comm, if the ranks are to look for each other.
std::unique_ptr<NearRanks> find_near(const OptimizerSetup& setup) {
  if (setup.windows == Windows::off || setup.comm->world_size() == 1) return nullptr;
  return std::make_unique<NearRanks>(*setup.comm);
}

/// Stage 0: G of every rank where the others can read their parts of it.
std::unique_ptr<SharedBuffers> share_sums(const OptimizerSetup& setup, const NearRanks* near) {
  if (setup.stage > 0 || near == nullptr || !near->all()) return nullptr;
  const auto world = static_cast<std::size_t>(setup.comm->world_size());
  return std::make_unique<SharedBuffers>(
      near->group(),
      std::vector<SharedBuffers::Shapes>(world, {{setup.layout->padded_numel(), DType::fp32}}));
}

}  // namespace

ProductionOptimizer::ProductionOptimizer(const OptimizerSetup& setup, Space space, bool fused,
                                         const PhaseOps& ops)
    : setup_(adapt(setup, space)),
      fused_(fused),
      ops_(ops),
      ranges_(state_ranges(setup_)),
      pieces_(loop_over(setup_.layout->pieces(ranges_), space)),
      plans_(plan_buckets(setup_)),
      near_(find_near(setup_)),
      memory_(ledger_, setup_.guards),
      reduce_(setup_, plans_, ops_, memory_, near_.get()),
      sums_(share_sums(setup_, near_.get())),
      grad_(sums_ ? sums_->mine(0, ledger_, MemoryClass::grad_sum)
                  : CountedBuffer(ledger_, MemoryClass::grad_sum, total_numel(ranges_), DType::fp32)),
      master_(ledger_, MemoryClass::master, total_numel(ranges_), DType::fp32),
      param_store_(setup_, ranges_, near_.get(), ledger_),
      params_(setup_, plans_, memory_, param_store_, near_.get()),
      state_(setup_.hyper, total_numel(ranges_), ledger_),
      sum_(grad_, ops_),
      steps_(setup_),
      global_norm_(setup_.hyper.norm) {
  if (sums_) reduce_.read_sums(*sums_);
}

void ProductionOptimizer::load_state(const FullState& state) {
  require_state(setup_, state);
  require_same_setup(setup_, state);
  pieces_.run_joined(setup_.exec, any_tensors, [&](const Exec&, const Piece& piece) {
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

void ProductionOptimizer::run_phase(Phase phase, GradSource& leaves) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "no state was loaded before phase " + std::string(name(phase)),
           "masters and moments are still poisoned", "call load_state first");
  ZP_CHECK(!skipped() || !skipped_on_overflow(phase), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " was called in a skipped step",
           "an overflow must leave every bit of the state alone", "begin the next step with prepare");
  execute(phase, leaves);
}

void ProductionOptimizer::execute(Phase phase, GradSource& leaves) {
  switch (phase) {
    case Phase::prepare:
      return prepare(leaves);
    case Phase::reduce:
      sum_.begin();
      return reduce(leaves);
    case Phase::unscale:
      return unscale();
    case Phase::norm:
      return norm();
    case Phase::clip:
      return clip();
    case Phase::update:
      return fused_ ? update_fused() : update();
    case Phase::cast:
      return fused_ ? void() : cast();
    case Phase::gather:
      return gather();
  }
}

void ProductionOptimizer::prepare(GradSource& leaves) {
  found_inf_ = 0;
  steps_.prepare(leaves, scaler_.log2_scale);
}

void ProductionOptimizer::reduce(GradSource& leaves) {
  if (LayeredModel* model = leaves.layers()) return reduce_layered(*model, leaves);
  GradTarget target = grad_target();
  target.leaf_may_stay = fused_;  // phases change the gradient in place
  const std::optional<TensorView> leaf = reduce_.reduce_leaves(leaves, target);
  if (leaf) sum_.is_leaf(*leaf);
  if (!leaf && target.see) sum_.set_looked_at();
}

GradTarget ProductionOptimizer::grad_target() {
  GradTarget target{grad_->as<float>()};
  // In stage 0 on several ranks most of G arrives from others, and is looked at when it is there.
  if (!fused_ || (setup_.stage == 0 && setup_.comm->world_size() > 1)) return target;
  target.see.look = [this](const Exec& exec, Span<const float> sum) {
    GlobalNorm::Part norm;
    const bool found_inf = global_norm_.fused_unscale(exec, steps_.inv_scale(), sum, norm);
    sum_.add_look(found_inf, norm);
  };
  if (!global_norm_.fused_folds()) return target;
  target.see.fold = [this](const Exec& exec, const host::FoldPlan& plan,
                           Span<const host::GradStretch> operands, Span<float> sum, bool streamed) {
    GlobalNorm::Part norm;
    const bool found_inf =
        global_norm_.fused_fold(exec, steps_.inv_scale(), plan, operands, sum, streamed, norm);
    sum_.add_look(found_inf, norm);
  };
  return target;
}

void ProductionOptimizer::overwritten(Phase phase) {
  if (phase == Phase::reduce) sum_.replaced();
  if (phase == Phase::cast) param_store_.take_shown();
}

void ProductionOptimizer::unscale() {
  global_norm_.clear();
  if (sum_.looked_at()) {
    global_norm_.add(sum_.norm());
  } else {
    pieces_.sum_joined<GlobalNorm::Part>(
        setup_.exec, any_tensors,
        [&](const Exec& exec, const Piece& piece, GlobalNorm::Part& norm) {
          if (fused_ && global_norm_.fused_folds()) {
            const bool found =
                global_norm_.fused_look(exec, steps_.inv_scale(), sum_.stretch(piece), piece.numel, norm);
            if (found) sum_.set_found_inf();
            return;
          }
          if (fused_) {
            return sum_.read(exec, piece, [&](const Piece&, Span<const float> sum) {
              if (global_norm_.fused_unscale(exec, steps_.inv_scale(), sum, norm)) sum_.set_found_inf();
            });
          }
          const auto grad = part(grad_, piece);
          if (ops_.unscale(exec, steps_.inv_scale(), grad, grad)) sum_.set_found_inf();
        },
        [&](const GlobalNorm::Part& norm) { global_norm_.add(norm); });
  }
  std::uint64_t flag = sum_.found_inf() ? 1 : 0;
  all_reduce_step(setup_, {&flag, 1}, IntegerReduce::bitwise_or);
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
  if (!fused_ || global_norm_.fused_leaves_rest()) {
    pieces_.sum_joined<GlobalNorm::Part>(
        setup_.exec, [&](const Piece& a, const Piece& b) { return counted(a) == counted(b); },
        [&](const Exec& exec, const Piece& piece, GlobalNorm::Part& norm) {
          if (!counted(piece)) return;
          if (!fused_) return global_norm_.add(ops_, exec, part(grad_, piece), norm);
          sum_.read(exec, piece, [&](const Piece&, Span<const float> sum) {
            global_norm_.fused_norm(exec, steps_.inv_scale(), sum, norm);
          });
        },
        [&](const GlobalNorm::Part& norm) { global_norm_.add(norm); });
  }
  // In stage 0 every rank has counted every element, and every instance has all of them.
  grad_norm_ = global_norm_.finish(setup_.stage > 0 ? setup_.comm : nullptr, setup_.tp);
}

bool ProductionOptimizer::counted(const Piece& piece) const {
  return tp_rank(setup_) == 0 || !tp_replicated(setup_, piece.tensor);
}

void ProductionOptimizer::clip() {
  clip_coef_ = host::clip_coef(grad_norm_, setup_.hyper.max_norm);
  if (fused_) return;
  pieces_.run_joined(setup_.exec, any_tensors, [&](const Exec& exec, const Piece& piece) {
    ops_.clip(exec, clip_coef_, part(grad_, piece), part(grad_, piece));
    if (setup_.hyper.clip_value) {
      ops_.clip_value(exec, static_cast<float>(*setup_.hyper.clip_value), part(grad_, piece));
    }
  });
}

void ProductionOptimizer::update() {
  const auto alike = [&](const Piece& a, const Piece& b) { return steps_.alike(a, b); };
  pieces_.run_joined(setup_.exec, alike, [&](const Exec& exec, const Piece& piece) {
    if (steps_.updated(piece)) update_piece(exec, piece);
  });
  steps_.advance();
}

void ProductionOptimizer::update_piece(const Exec& exec, const Piece& piece) {
  state_.update(ops_, exec, setup_.hyper, steps_.scalars(piece), piece, part(grad_, piece),
                part(master_, piece));
}

}  // namespace zeroproof::cuda
