// Wrong trust ratios and updates of LAMB. The correct parts follow R6.

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

/// The weights and the updates of one piece, whose squares are added to its norms.
struct Squares {
  std::vector<float> weight, update;

  void add_to(const Exec& exec, TrustNorms& norms) const {
    cuda::host::grad_norm_exact_accumulate(exec, weight, norms.weight);
    cuda::host::grad_norm_exact_accumulate(exec, update, norms.update);
  }
};

float adaptive_step(const StepScalars& c, float m, float v) {
  return c.step_size * (m / (std::sqrt(v) / c.sqrt_bias_correction2 + c.eps));
}

/// u of every element. old_moments: from the moments as they were before the step.
Squares squares_of(const LambOptions& options, const StepScalars& c, Span<const float> grad,
                   Span<const float> master, Span<const float> exp_avg,
                   Span<const float> exp_avg_sq, bool old_moments = false) {
  Squares squares{{master.begin(), master.end()}, std::vector<float>(master.size())};
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = options.maximize ? -grad[i] : grad[i];
    const float m = old_moments ? exp_avg[i] : c.beta1 * exp_avg[i] + c.one_minus_beta1 * g;
    const float v =
        old_moments ? exp_avg_sq[i] : c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * (g * g);
    const float a = adaptive_step(c, m, v);
    squares.update[i] = c.has_decay != 0 ? a + c.lr_weight_decay * master[i] : a;
  }
  return squares;
}

/// The norm of the weights is taken after the update, which moved them.
void weight_after_update(const Exec& exec, const LambOptions& options, const StepScalars& c,
                         Span<const float> grad, Span<const float> master,
                         Span<const float> exp_avg, Span<const float> exp_avg_sq,
                         TrustNorms& norms) {
  Squares squares = squares_of(options, c, grad, master, exp_avg, exp_avg_sq);
  for (std::size_t i = 0; i < grad.size(); ++i) squares.weight[i] -= squares.update[i];
  squares.add_to(exec, norms);
}

void norm_without_decay(const Exec& exec, const LambOptions& options, const StepScalars& c,
                        Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                        Span<const float> exp_avg_sq, TrustNorms& norms) {
  StepScalars no_decay = c;
  no_decay.has_decay = 0;
  squares_of(options, no_decay, grad, master, exp_avg, exp_avg_sq).add_to(exec, norms);
}

/// The update corrects the bias of its moments, its norm does not.
void norm_uncorrected(const Exec& exec, const LambOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                      Span<const float> exp_avg_sq, TrustNorms& norms) {
  StepScalars plain = c;
  plain.step_size = c.lr;
  plain.sqrt_bias_correction2 = 1;
  squares_of(options, plain, grad, master, exp_avg, exp_avg_sq).add_to(exec, norms);
}

void norm_of_old_moments(const Exec& exec, const LambOptions& options, const StepScalars& c,
                         Span<const float> grad, Span<const float> master,
                         Span<const float> exp_avg, Span<const float> exp_avg_sq,
                         TrustNorms& norms) {
  squares_of(options, c, grad, master, exp_avg, exp_avg_sq, true).add_to(exec, norms);
}

double quotient(double rate, double weight, double update) {
  return weight == 0 || update == 0 ? 1 : rate * weight / update;
}

/// u contains the rate, and the ratio does not [LAMB:units].
float without_rate(const StepScalars&, const TrustNorms& norms) {
  return static_cast<float>(quotient(1, cuda::host::grad_norm_finish(norms.weight),
                                     cuda::host::grad_norm_finish(norms.update)));
}

/// A tensor of zeros has the ratio 0, and stays where it is [LAMB:zero].
float zero_norm_stops(const StepScalars& c, const TrustNorms& norms) {
  const double weight = cuda::host::grad_norm_finish(norms.weight);
  return weight == 0 ? 0 : cuda::host::lamb_trust_ratio(c, norms);
}

/// The limit of an early version of the paper, on the norm instead of the ratio.
float weight_clamped(const StepScalars& c, const TrustNorms& norms) {
  return static_cast<float>(quotient(c.lr,
                                     std::min(cuda::host::grad_norm_finish(norms.weight), 10.0),
                                     cuda::host::grad_norm_finish(norms.update)));
}

/// Only tensors with decay are scaled.
float ratio_needs_decay(const StepScalars& c, const TrustNorms& norms) {
  return c.has_decay == 0 ? 1 : cuda::host::lamb_trust_ratio(c, norms);
}

void ratio_not_applied(const Exec& exec, const LambOptions& options, const StepScalars& c, float,
                       Span<const float> grad, Span<float> master, Span<float> exp_avg,
                       Span<float> exp_avg_sq) {
  cuda::host::lamb_update(exec, options, c, 1, grad, master, exp_avg, exp_avg_sq);
}

/// Decay enters the moments, as in Adam.
void lamb_decay_coupled(const Exec& exec, const LambOptions& options, const StepScalars& c,
                        float ratio, Span<const float> grad, Span<float> master,
                        Span<float> exp_avg, Span<float> exp_avg_sq) {
  std::vector<float> decayed(grad.size());
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float w = c.has_decay != 0 ? c.weight_decay * master[i] : 0;
    decayed[i] = options.maximize ? grad[i] - w : grad[i] + w;
  }
  StepScalars no_decay = c;
  no_decay.has_decay = 0;
  cuda::host::lamb_update(exec, options, no_decay, ratio, decayed, master, exp_avg, exp_avg_sq);
}

class WrongRatios : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  /// Ratios of the norms collected so far, reduced over `comm` and `tp`.
  void finish_over(Communicator* comm, Communicator* tp) { trust_.finish(ops_, comm, tp, steps_); }
};

/// Every rank scales by the norms of its own shard.
class RatioOfOwnShard final : public WrongRatios {
  using WrongRatios::WrongRatios;
  void prepare_update() override {
    collect_trust_norms();
    finish_over(nullptr, setup_.tp);
  }
};

/// TP ranks do not add the norms of their parts.
class RatioOfTpPart final : public WrongRatios {
  using WrongRatios::WrongRatios;
  void prepare_update() override {
    collect_trust_norms();
    finish_over(setup_.comm, nullptr);
  }
};

/// Every TP rank adds the weights of a replicated tensor, and TP rank 0 alone its update.
class WeightsPerTpRank final : public WrongRatios {
  using WrongRatios::WrongRatios;
  void prepare_update() override {
    collect_trust_norms();
    std::vector<TrustNorms> replicas(setup_.layout->tensors().size());
    for (const Piece& piece : setup_.layout->pieces(ranges_)) {
      if (counted(piece) || !steps_.updated(piece)) continue;
      TrustNorms& norms = replicas[piece.tensor];
      cuda::host::grad_norm_exact_accumulate({}, part(master_, piece), norms.weight);
    }
    trust_.add(replicas);
    finish_over(setup_.comm, setup_.tp);
  }
};

/// The list of ratios is shifted against that of the tensors.
class RatioOfNextTensor final : public WrongRatios {
  using WrongRatios::WrongRatios;
  void prepare_update() override {
    HostStep::prepare_update();
    std::vector<float> ratios = trust_.values();
    std::ranges::rotate(ratios, ratios.begin() + 1);
    trust_.set_values(std::move(ratios));
  }
};

}  // namespace

bool put_wrong_lamb(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "lamb-weight-norm-after-update") {
    ops.lamb_norms = weight_after_update;
  } else if (fault == "lamb-norm-without-decay") {
    ops.lamb_norms = norm_without_decay;
  } else if (fault == "lamb-norm-uncorrected") {
    ops.lamb_norms = norm_uncorrected;
  } else if (fault == "lamb-norm-of-old-moments") {
    ops.lamb_norms = norm_of_old_moments;
  } else if (fault == "lamb-ratio-without-rate") {
    ops.lamb_trust_ratio = without_rate;
  } else if (fault == "lamb-zero-norm-stops") {
    ops.lamb_trust_ratio = zero_norm_stops;
  } else if (fault == "lamb-weight-norm-clamped") {
    ops.lamb_trust_ratio = weight_clamped;
  } else if (fault == "lamb-ratio-needs-decay") {
    ops.lamb_trust_ratio = ratio_needs_decay;
  } else if (fault == "lamb-ratio-not-applied") {
    ops.lamb_update = ratio_not_applied;
  } else if (fault == "lamb-decay-coupled") {
    ops.lamb_update = lamb_decay_coupled;
  } else {
    return false;
  }
  return true;
}

cuda::MakeLocalStep wrong_trust_ratio(std::string_view fault, const FaultContext& context) {
  if (fault == "lamb-ratio-of-own-shard") return step_of<RatioOfOwnShard>(context);
  if (fault == "lamb-ratio-of-tp-part") return step_of<RatioOfTpPart>(context);
  if (fault == "lamb-weights-per-tp-rank") return step_of<WeightsPerTpRank>(context);
  if (fault == "lamb-ratio-of-next-tensor") return step_of<RatioOfNextTensor>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
