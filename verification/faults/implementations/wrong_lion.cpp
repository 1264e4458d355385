// Wrong updates of Lion that a loss curve does not reveal.

#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

float sign_of(float c) { return c > 0 ? 1.0F : c < 0 ? -1.0F : c; }

/// The parameters of the faults: the decays of the two averages, and where weight decay enters.
struct Form {
  float to_go, new_to_go;      ///< weights of the average whose sign is taken: old, new gradient
  float to_keep, new_to_keep;  ///< of the stored average
  bool coupled;                ///< decay is added to the gradient
};

void update(const Form& f, const LionOptions& options, const StepScalars& c, Span<const float> grad,
            Span<float> master, Span<float> exp_avg) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    float g = options.maximize ? -grad[i] : grad[i];
    const bool decays = c.has_decay != 0;
    if (decays && f.coupled) g = g + c.weight_decay * master[i];
    float u = c.lr * sign_of(f.to_go * exp_avg[i] + f.new_to_go * g);
    if (decays && !f.coupled) u = u + c.lr_weight_decay * master[i];
    master[i] = master[i] - u;
    exp_avg[i] = f.to_keep * exp_avg[i] + f.new_to_keep * g;
  }
}

/// beta1 and beta2 as in Adam: the first one for the stored average.
void betas_swapped(const Exec&, const LionOptions& options, const StepScalars& c,
                   Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  update({c.beta2, c.one_minus_beta2, c.beta1, c.one_minus_beta1, false}, options, c, grad, master,
         exp_avg);
}

/// One average for both purposes.
void one_average(const Exec&, const LionOptions& options, const StepScalars& c,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  update({c.beta1, c.one_minus_beta1, c.beta1, c.one_minus_beta1, false}, options, c, grad, master,
         exp_avg);
}

/// Decay is added before the sign, which removes its magnitude.
void decay_coupled(const Exec&, const LionOptions& options, const StepScalars& c,
                   Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  update({c.beta1, c.one_minus_beta1, c.beta2, c.one_minus_beta2, true}, options, c, grad, master,
         exp_avg);
}

}  // namespace

bool put_wrong_lion(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "lion-betas-swapped") {
    ops.lion_update = betas_swapped;
  } else if (fault == "lion-one-average") {
    ops.lion_update = one_average;
  } else if (fault == "lion-decay-coupled") {
    ops.lion_update = decay_coupled;
  } else {
    return false;
  }
  return true;
}

}  // namespace zeroproof::verification
