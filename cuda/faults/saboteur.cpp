#include "cuda/faults/saboteur.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/faults/wrong_leaves.hpp"
#include "cuda/production_optimizer.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<float> copy(const GuardedBuffer& buffer) {
  const Span<float> values = buffer.as<float>();
  return {values.begin(), values.end()};
}

std::vector<std::byte> raw_copy(const TensorView& view) {
  const auto* bytes = static_cast<const std::byte*>(view.data);
  return {bytes, bytes + view.num_bytes()};
}

}  // namespace

Saboteur::Saboteur(ProductionOptimizer& victim)
    : victim_(victim),
      fault_(victim.setup_.exec.fault),
      leaves_(std::make_unique<Leaves>(victim.setup_, fault_)) {}

Saboteur::~Saboteur() = default;

bool Saboteur::is(std::string_view fault) const { return fault_ == fault; }

bool Saboteur::owns_nothing() const { return victim_.master_->numel() == 0; }

void Saboteur::remember() {
  grad_ = copy(*victim_.grad_);
  master_ = copy(*victim_.master_);
  max_exp_avg_sq_ = copy(victim_.state_[BufferId::max_exp_avg_sq]);
  param_shard_ = raw_copy(victim_.param_shard_->view());
  param_full_ = raw_copy(victim_.params_.full().view());
  scaler_ = victim_.scaler_;
  grad_norm_ = victim_.grad_norm_;
  clip_coef_ = victim_.clip_coef_;
  found_inf_ = victim_.found_inf_;
  applied_steps_ = victim_.steps_.applied_steps();
}

LeafSource& Saboteur::leaves(LeafSource& honest) {
  constexpr std::string_view wrong[] = {"leaf-computed-twice",           "leaf-edited",
                                        "Z46-clip-per-microbatch",       "Z64-accumulator-overwritten",
                                        "Z65-boundary-microbatch-leaks", "Z66-doubles-each-microbatch",
                                        "Z71-reduce-reads-other-buffer", "Z75-transpose-of-sum"};
  if (std::ranges::find(wrong, fault_) == std::end(wrong)) return honest;
  return leaves_->over(honest, victim_.scaler_.log2_scale);
}

bool Saboteur::before(Phase phase) {
  remember();
  if (phase == Phase::norm && is("Z43-short-pieces-counted-twice")) {
    victim_.pieces_.run(victim_.setup_.exec, [&](const Exec& exec, const Piece& piece) {
      const auto grad = victim_.grad_->as<float>().subspan(static_cast<std::size_t>(piece.local_begin),
                                                           static_cast<std::size_t>(piece.numel));
      if (piece.numel < norm_chunk_numel) victim_.global_norm_.add(victim_.ops_, exec, grad);
    });
  }
  if (phase == Phase::clip && is("Z45-clip-divides-by-scale-again")) {
    victim_.grad_norm_ = std::ldexp(grad_norm_, victim_.scaler_.log2_scale);
  }
  if (phase == Phase::update && is("fused-clip-forgotten")) victim_.clip_coef_ = 1;
  if (is("Z84-stale-unit") && phase == Phase::cast) stale_shard_ = param_shard_;
  if (is("Z84-stale-unit") && phase == Phase::reduce) swap_params();
  return false;
}

bool Saboteur::after(Phase phase, const LeafSource* leaves) {
  switch (phase) {
    case Phase::prepare:
      after_prepare(*leaves);
      break;
    case Phase::reduce:
      if (is("Z84-stale-unit")) swap_params();
      after_reduce();
      break;
    case Phase::unscale:
      after_unscale();
      break;
    case Phase::norm:
      after_norm();
      break;
    case Phase::clip:
      victim_.grad_norm_ = grad_norm_;
      break;
    case Phase::update:
      after_update();
      break;
    case Phase::cast:
      after_cast();
      break;
    case Phase::gather:
      after_gather();
      break;
  }
  return false;
}

}  // namespace zeroproof::cuda
