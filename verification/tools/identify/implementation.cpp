#include <cstddef>

#include "common/base/error.hpp"
#include "verification/tools/identify/dialect.hpp"
#include "verification/tools/identify/elements.hpp"
#include "verification/tools/identify/ratio.hpp"

namespace zeroproof::verification {
namespace {

/// Index of the first element of the tail.
std::size_t tail_begin(const Dialect& dialect, std::size_t n) {
  return dialect.tail_width == 0 ? n : n - n % static_cast<std::size_t>(dialect.tail_width);
}

void update_adam(const Dialect& dialect, const AdamFormula& f, const DialectHyper& hyper,
                 const UpdateTensors& t) {
  const AverageWeights w1 = average_weights(hyper.beta1, f.betas);
  const AverageWeights w2 = average_weights(hyper.beta2, f.betas);
  const MasterScalars scalars = master_scalars(hyper, f.master.corrections);
  const bool decays = hyper.weight_decay != 0;
  const bool decoupled = hyper.rule != UpdateRule::adam;
  const std::size_t tail = tail_begin(dialect, t.grad.size());
  for (std::size_t i = 0; i < t.grad.size(); ++i) {
    const bool in_tail = i >= tail;
    const float p = t.master[i];
    const float g = used_gradient(hyper, decays && !decoupled, f.coupled_fused, p, t.grad[i]);
    const float m = first_moment(in_tail ? f.first_tail : f.first, w1, t.exp_avg[i], g);
    const float v = second_moment(in_tail ? f.second_tail : f.second, w2, t.exp_avg_sq[i], g);
    t.exp_avg[i] = m;
    t.exp_avg_sq[i] = v;
    if (hyper.amsgrad) t.max_exp_avg_sq[i] = maximum(f.maximum, t.max_exp_avg_sq[i], v);
    const float x = hyper.amsgrad ? t.max_exp_avg_sq[i] : v;
    t.master[i] = new_master(f.master, decays && decoupled, p, m, x, scalars);
  }
}

void update_lamb(const Dialect& dialect, const DialectHyper& hyper, const UpdateTensors& t) {
  const LambFormula& f = *dialect.lamb;
  const std::vector<float> before(t.master.begin(), t.master.end());
  update_adam(dialect, f.moments, hyper, t);  // moves the moments; master is written below
  const std::vector<float> u = lamb_updates(f.master, hyper, before, t.exp_avg, t.exp_avg_sq);
  const float c = lamb_factor(f, hyper, before, u);
  const auto lr = static_cast<float>(hyper.lr);
  for (std::size_t i = 0; i < u.size(); ++i)
    t.master[i] = lamb_master(f.master.write, before[i], u[i], c, lr);
}

void update_sgd(const Dialect& dialect, const DialectHyper& hyper, bool is_first,
                const UpdateTensors& t) {
  const SgdFormula& f = *dialect.sgd;
  const auto lr = static_cast<float>(hyper.lr);
  const auto momentum = static_cast<float>(hyper.momentum);
  const auto take = static_cast<float>(1 - hyper.dampening);
  const std::size_t tail = tail_begin(dialect, t.grad.size());
  for (std::size_t i = 0; i < t.grad.size(); ++i) {
    const float p = t.master[i];
    const float g = used_gradient(hyper, hyper.weight_decay != 0, f.coupled_fused, p, t.grad[i]);
    float e = g;
    if (hyper.momentum != 0) {
      const Contraction form = i >= tail ? f.buffer_tail : f.buffer;
      const float b = is_first ? g : sum_of_products(form, momentum, t.momentum_buffer[i], take, g);
      t.momentum_buffer[i] = b;
      e = hyper.nesterov ? nesterov(f.nesterov_fused, momentum, b, g) : b;
    }
    t.master[i] = sgd_master(f.write_fused, lr, e, p);
  }
}

}  // namespace

void update(const Dialect& dialect, const DialectHyper& hyper, bool is_first,
            const UpdateTensors& tensors) {
  ZP_CHECK(dialect.takes(hyper), ErrorCode::invalid_argument,
           dialect.name + " does not compute a step of this kind", "the library has no such option",
           "choose another dialect, or other options");
  ZP_CHECK(hyper.rule != UpdateRule::muon, ErrorCode::invalid_argument,
           dialect.name + " of muon has no update of single elements",
           "its orthogonal matrix has no fixed bits", "use zeroproof identify");
  if (hyper.rule == UpdateRule::lamb) {
    update_lamb(dialect, hyper, tensors);
  } else if (hyper.rule == UpdateRule::sgd) {
    update_sgd(dialect, hyper, is_first, tensors);
  } else {
    update_adam(dialect, *dialect.adam, hyper, tensors);
  }
}

}  // namespace zeroproof::verification
