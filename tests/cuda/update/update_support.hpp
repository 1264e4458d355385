#pragma once
// The element-wise update rules and the norms of LAMB against the reference, for the
// implementations of the host and those of the device.

#include <functional>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace zeroproof::tests {

using device_test::Place;

struct UpdateImplementations {
  AdamwUpdateFn *adamw, *adam;
  SgdUpdateFn* sgd;
  SgdEmaUpdateFn* sgd_ema;
  LionUpdateFn* lion;
  LambUpdateFn* lamb;
  LambNormsFn* lamb_norms;
  LambTrustRatioFn* lamb_trust_ratio;
};

inline constexpr UpdateImplementations reference_updates{
    reference::adamw_update,   reference::adam_update,     reference::sgd_update,
    reference::sgd_ema_update, reference::lion_update,     reference::lamb_update,
    reference::lamb_norms,     reference::lamb_trust_ratio};

/// No two equal, so that none can replace another.
inline StepScalars distinct_scalars(std::uint32_t has_decay, std::uint32_t is_first = 0) {
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
struct UpdateBuffers {
  UpdateBuffers(std::int64_t numel, const int* offset, bool finite = false)
      : grad(numel, offset[0]),
        master(numel, offset[1]),
        exp_avg(numel, offset[2]),
        exp_avg_sq(numel, offset[3]),
        max_exp_avg_sq(numel, offset[4]) {
    const auto put = finite ? device_test::fill_finite
                            : static_cast<decltype(&device_test::fill_finite)>(device_test::fill);
    std::uint64_t stream = 1;
    for (Place<float>* buffer : {&grad, &master, &exp_avg, &exp_avg_sq, &max_exp_avg_sq})
      put(buffer->span(), stream++);
  }
  void check_equal(const UpdateBuffers& other) const {
    for (const auto buffer : {&UpdateBuffers::grad, &UpdateBuffers::master, &UpdateBuffers::exp_avg,
                              &UpdateBuffers::exp_avg_sq, &UpdateBuffers::max_exp_avg_sq}) {
      const Place<float>&got = this->*buffer, &want = other.*buffer;
      if (!got.same_bytes(want)) got.check([&](std::int64_t i) { return want[i]; });
    }
  }

  Place<float> grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

using UpdateCall = std::function<void(const UpdateImplementations&, const Exec&, UpdateBuffers&)>;

/// Every rule with every option, with and without decay, in a first step and in later ones.
inline std::vector<UpdateCall> update_calls() {
  using Implementations = UpdateImplementations;
  std::vector<UpdateCall> calls;
  for (const std::uint32_t has_decay : {0U, 1U}) {
    for (const bool maximize : {false, true}) {
      const StepScalars s = distinct_scalars(has_decay);
      for (const bool amsgrad : {false, true}) {
        for (const auto rule : {&Implementations::adamw, &Implementations::adam}) {
          calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
            (f.*rule)(exec, {amsgrad, maximize}, s, b.grad.span(), b.master.span(),
                      b.exp_avg.span(), b.exp_avg_sq.span(),
                      amsgrad ? b.max_exp_avg_sq.span() : Span<float>());
          });
        }
      }
      for (const std::uint32_t is_first : {0U, 1U}) {
        const StepScalars c = distinct_scalars(has_decay, is_first);
        for (const SgdOptions& options :
             {SgdOptions{false, false, maximize}, SgdOptions{true, false, maximize},
              SgdOptions{true, true, maximize}}) {
          calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
            f.sgd(exec, options, c, b.grad.span(), b.master.span(),
                  options.momentum ? b.exp_avg.span() : Span<float>());
          });
        }
      }
      const StepScalars c = distinct_scalars(has_decay, has_decay);  // is_first is not read
      calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
        f.sgd_ema(exec, {maximize}, c, b.grad.span(), b.master.span(), b.exp_avg.span());
      });
      calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
        f.lion(exec, {maximize}, c, b.grad.span(), b.master.span(), b.exp_avg.span());
      });
      for (const float ratio : {0.37F, -0.0F, HUGE_VALF}) {
        calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
          f.lamb(exec, {maximize}, s, ratio, b.grad.span(), b.master.span(), b.exp_avg.span(),
                 b.exp_avg_sq.span());
        });
      }
    }
  }
  for (const float step_size : {0.0F, HUGE_VALF}) {
    calls.push_back([=](const Implementations& f, const Exec& exec, UpdateBuffers& b) {
      StepScalars s = distinct_scalars(step_size == 0.0F ? 1 : 0);
      s.step_size = step_size;
      f.adamw(exec, {}, s, b.grad.span(), b.master.span(), b.exp_avg.span(), b.exp_avg_sq.span(),
              {});
    });
  }
  return calls;
}

inline void check_updates(const UpdateImplementations& implementations,
                          const std::vector<Exec>& execs) {
  const std::vector<UpdateCall> calls = update_calls();
  device_test::for_each_layout([&](std::int64_t numel, const int* offset) {
    const UpdateBuffers start(numel, offset);
    for (std::size_t call = 0; call < calls.size(); ++call) {
      CAPTURE(call);
      UpdateBuffers want = start;
      calls[call](reference_updates, {}, want);
      for (const Exec& exec : execs) {
        UpdateBuffers got = start;
        calls[call](implementations, exec, got);
        got.check_equal(want);
      }
    }
  });
}

inline TrustNorms normalised(TrustNorms norms) {
  reference::grad_norm_normalise(norms.weight);
  reference::grad_norm_normalise(norms.update);
  return norms;
}

/// The norms of LAMB are added to existing ones, and no operand changes.
inline void check_lamb_norms(LambNormsFn* implementation, const Exec& exec) {
  for (const bool finite : {false, true}) {
    for (const bool maximize : {false, true}) {
      const StepScalars s = distinct_scalars(maximize ? 1 : 0);
      device_test::for_each_layout([&](std::int64_t numel, const int* offset) {
        UpdateBuffers b(numel, offset, finite);
        const UpdateBuffers before = b;
        TrustNorms norms;
        norms.weight.limbs[3] = 5;
        norms.update.nan_count = 2;
        TrustNorms want = norms;
        implementation(exec, {maximize}, s, b.grad.span(), b.master.span(), b.exp_avg.span(),
                       b.exp_avg_sq.span(), norms);
        b.check_equal(before);
        reference::lamb_norms({}, {maximize}, s, b.grad.span(), b.master.span(), b.exp_avg.span(),
                              b.exp_avg_sq.span(), want);
        CHECK(normalised(norms) == normalised(want));
      });
    }
  }
}

/// Of any two norms, zeros, infinities and NaN among them, also before carries are propagated.
inline void check_lamb_trust_ratio(LambTrustRatioFn* implementation) {
  StepScalars s = distinct_scalars(1);
  std::vector<NormLimbs> norms;
  for (const std::vector<float>& values : {std::vector<float>{},
                                           {-0.0F, 0.0F},
                                           {3e-3F, 1.0F, -7.0F},
                                           {0x1p-149F},
                                           {3.0F, 4.0F},
                                           {0x1p127F, HUGE_VALF},
                                           {2.0F, std::nanf(""), HUGE_VALF},
                                           {0.37F},
                                           {0.74F}}) {
    reference::grad_norm_exact_accumulate({}, values, norms.emplace_back());
    NormLimbs carried = norms.back();
    for (std::size_t i = 1; i < carried.limbs.size(); ++i) {
      if (carried.limbs[i] == 0) continue;
      carried.limbs[i] -= 1;
      carried.limbs[i - 1] += std::uint64_t{1} << 32;
      norms.push_back(carried);
      break;
    }
  }
  for (const float lr : {0.0F, 3e-3F, 0.1F}) {
    s.lr = lr;
    for (const NormLimbs& weight : norms) {
      for (const NormLimbs& update : norms) {
        const TrustNorms both{weight, update};
        CHECK(device_test::same(implementation(s, both), reference::lamb_trust_ratio(s, both)));
      }
    }
  }
}

}  // namespace zeroproof::tests
