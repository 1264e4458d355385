// Device update rules against the contract, bit for bit: odd sizes, every alignment, special values in
// gradient and state. Skipped without a usable device; tests/cuda/device/sim runs the same file on
// the simulated device.

#include <doctest.h>

#include <limits>
#include <vector>

#include "cuda/device/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/device_expected.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_update_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();

/// No two equal, so that none can replace another.
StepScalars scalars(std::uint32_t has_decay, std::uint32_t is_first) {
  StepScalars s{};
  s.inv_scale = 0.25F;
  s.beta1 = 0.9F;
  s.one_minus_beta1 = 0.1F;
  s.beta2 = 0.999F;
  s.one_minus_beta2 = 0.001F;
  s.sqrt_bias_correction2 = 0.0316F;
  s.step_size = 1.1e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 1e-5F;
  s.weight_decay = 0.02F;
  s.lr = 3e-3F;
  s.momentum = 0.85F;
  s.one_minus_dampening = 0.7F;
  s.has_decay = has_decay;
  s.is_first = is_first;
  return s;
}

/// Gradient and state in random places; state may be negative or NaN, which a rule never produces.
struct Buffers {
  Buffers(std::int64_t numel, const int* offset)
      : grad(numel, offset[0]),
        master(numel, offset[1]),
        exp_avg(numel, offset[2]),
        exp_avg_sq(numel, offset[3]),
        max_exp_avg_sq(numel, offset[4]) {
    fill(grad.span(), 1);
    fill(master.span(), 2);
    fill(exp_avg.span(), 3);
    fill(exp_avg_sq.span(), 4);
    fill(max_exp_avg_sq.span(), 5);
  }
  Values at(std::int64_t i) const {
    return {master[i], exp_avg[i], exp_avg_sq[i], max_exp_avg_sq[i]};
  }

  /// expected(grad, old values) -> Values. Buffers not used by the rule keep their bits.
  template <class Expected>
  void check_against(const Buffers& old, const Expected& expected) const {
    std::vector<Values> next;
    for (std::size_t i = 0; i < grad.span().size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      next.push_back(expected(old.grad[at], old.at(at)));
    }
    const auto is = [&](float Values::*member) {
      return [&next, member](std::int64_t i) { return next[i].*member; };
    };
    grad.check([&](std::int64_t i) { return old.grad[i]; });
    master.check(is(&Values::master));
    exp_avg.check(is(&Values::exp_avg));
    exp_avg_sq.check(is(&Values::exp_avg_sq));
    max_exp_avg_sq.check(is(&Values::max_exp_avg_sq));
  }

  Place<float> grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

void check_adam(bool decoupled, const AdamOptions& options, const StepScalars& s) {
  CAPTURE(decoupled);
  CAPTURE(options.amsgrad);
  CAPTURE(options.maximize);
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Buffers b(numel, offset);
    const Buffers old = b;
    auto* implementation =
        decoupled ? on_device<device::adamw_update> : on_device<device::adam_update>;
    implementation(exec, options, s, b.grad.span(), b.master.span(), b.exp_avg.span(),
                   b.exp_avg_sq.span(), options.amsgrad ? b.max_exp_avg_sq.span() : Span<float>());
    b.check_against(old, [&](float grad, const Values& v) {
      return expected_adam(decoupled, options, s, grad, v);
    });
  });
}

void check_sgd(const SgdOptions& options, const StepScalars& s) {
  CAPTURE(options.momentum);
  CAPTURE(options.nesterov);
  CAPTURE(options.maximize);
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Buffers b(numel, offset);
    const Buffers old = b;
    on_device<device::sgd_update>(exec, options, s, b.grad.span(), b.master.span(),
                                  options.momentum ? b.exp_avg.span() : Span<float>());
    b.check_against(old,
                    [&](float grad, const Values& v) { return expected_sgd(options, s, grad, v); });
  });
}

void check_sgd_ema(const SgdEmaOptions& options, const StepScalars& s) {
  CAPTURE(options.maximize);
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Buffers b(numel, offset);
    const Buffers old = b;
    on_device<device::sgd_ema_update>(exec, options, s, b.grad.span(), b.master.span(),
                                      b.exp_avg.span());
    b.check_against(
        old, [&](float grad, const Values& v) { return expected_sgd_ema(options, s, grad, v); });
  });
}

void check_lion(const LionOptions& options, const StepScalars& s) {
  CAPTURE(options.maximize);
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Buffers b(numel, offset);
    const Buffers old = b;
    on_device<device::lion_update>(exec, options, s, b.grad.span(), b.master.span(),
                                   b.exp_avg.span());
    b.check_against(
        old, [&](float grad, const Values& v) { return expected_lion(options, s, grad, v); });
  });
}

}  // namespace

TEST_CASE("device: adamw and adam with every option") {
  if (!usable()) return;
  for (const bool decoupled : {true, false}) {
    for (const bool amsgrad : {false, true}) {
      check_adam(decoupled, {amsgrad, false}, scalars(1, 0));
      check_adam(decoupled, {amsgrad, false}, scalars(0, 1));
      check_adam(decoupled, {amsgrad, true}, scalars(1, 1));
      check_adam(decoupled, {amsgrad, true}, scalars(0, 0));
    }
  }
}

TEST_CASE("device: adamw with a step of zero and of infinity") {
  if (!usable()) return;
  for (const float step_size : {0.0F, inf}) {
    StepScalars s = scalars(step_size == 0.0F ? 1 : 0, 0);
    s.step_size = step_size;
    check_adam(true, {}, s);
  }
}

TEST_CASE("device: lion with and without decay, both ways") {
  if (!usable()) return;
  for (const bool maximize : {false, true}) {
    for (const std::uint32_t has_decay : {0U, 1U})
      check_lion({maximize}, scalars(has_decay, has_decay));
  }
}

TEST_CASE("device: sgd in every form") {
  if (!usable()) return;
  for (const bool maximize : {false, true}) {
    for (const std::uint32_t has_decay : {0U, 1U}) {
      check_sgd({false, false, maximize}, scalars(has_decay, 0));
      for (const std::uint32_t is_first : {0U, 1U}) {
        check_sgd({true, false, maximize}, scalars(has_decay, is_first));
        check_sgd({true, true, maximize}, scalars(has_decay, is_first));
        check_sgd_ema({maximize}, scalars(has_decay, is_first));
      }
    }
  }
}

}  // namespace device_update_test
