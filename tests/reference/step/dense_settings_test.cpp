// Rules, divisors, policies, norm forms and roundings of the undistributed optimizer, by hand.

#include "common/step/state_buffers.hpp"
#include "reference/update_operations.hpp"
#include "tests/reference/step/dense_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("dense: the other rules and the state they keep, by hand") {
  const std::vector<std::vector<float>> leaves = {{3, -20, 5}, {5, -4, -5}};  // g1 = 1, -3, 0
  ThreeElements model;
  model.setup.hyper.weight_decay = 0;

  model.setup.hyper.rule = UpdateRule::sgd;
  reference::DenseOptimizer sgd(model.setup, model.state());
  CHECK(step(sgd, leaves));
  CHECK(three(sgd.master()) == std::vector<float>{7.75F, -3.25F, 16});  // m - g/4
  CHECK(kept_slots(model.setup.hyper).empty());
  CHECK(sgd.buffer(BufferId::momentum_buffer).data == nullptr);

  // One step was applied before, so the buffer (0) counts: half of it and a quarter of g.
  model.applied_steps = 1;
  model.setup.hyper.momentum = 0.5;
  model.setup.hyper.dampening = 0.75;
  reference::DenseOptimizer momentum(model.setup, model.state());
  CHECK(step(momentum, leaves));
  CHECK(three(momentum.state(BufferId::momentum_buffer)) == std::vector<float>{0.25F, -0.75F, 0});
  CHECK(three(momentum.master()) == std::vector<float>{7.9375F, -3.8125F, 16});

  model.setup.hyper.momentum = model.setup.hyper.dampening = 0;
  model.setup.hyper.rule = UpdateRule::lion;
  reference::DenseOptimizer lion(model.setup, model.state());
  CHECK(step(lion, leaves));
  CHECK(three(lion.master()) ==
        std::vector<float>{7.75F, -3.75F, 16});  // by lr = 1/4, where g is not 0

  model.setup.hyper.rule = UpdateRule::sgd_ema;
  reference::DenseOptimizer ema(model.setup, model.state());
  CHECK(step(ema, leaves));
  CHECK(three(ema.state(BufferId::exp_avg)) == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(three(ema.master()) == std::vector<float>{7.875F, -3.625F, 16});

  // adam: decay 1/2 of master turns the gradients -3, -1, -8 into 1, -3, 0: the first step of
  // adam_test.cpp.
  model.applied_steps = 0;
  model.setup.hyper.rule = UpdateRule::adam;
  model.setup.hyper.weight_decay = 0.5;
  model.setup.hyper.amsgrad = true;
  reference::DenseOptimizer adam(model.setup, model.state());
  CHECK(step(adam, {{-24, -8, -64}, {0, 0, 0}}));
  CHECK(three(adam.master()) == std::vector<float>{7.875F, -3.8125F, 16});
  CHECK(three(adam.state(BufferId::max_exp_avg_sq)) == std::vector<float>{0.25F, 2.25F, 0});
  const std::vector<StateSlot> expected = {StateSlot::exp_avg, StateSlot::exp_avg_sq,
                                           StateSlot::max_exp_avg_sq};
  CHECK(kept_slots(model.setup.hyper) == expected);
}

TEST_CASE("dense: every option is passed to the rule") {
  for (int number = 0; number < 96; ++number) {
    const UpdateRule rule = static_cast<UpdateRule>(number % 6);
    const int flags = number / 6 * 4;
    const bool maximize = (flags & 4) != 0;
    const bool is_sgd = rule == UpdateRule::sgd;
    const bool amsgrad =
        (flags & 8) != 0 && (rule == UpdateRule::adamw || rule == UpdateRule::adam);
    const bool momentum = (flags & 16) != 0 && is_sgd;
    const bool nesterov = (flags & 32) != 0 && momentum;
    INFO("rule ", number % 6, ", flags ", flags);
    ThreeElements model;
    model.setup.hyper.rule = rule;
    model.setup.hyper.maximize = maximize;
    model.setup.hyper.amsgrad = amsgrad;
    model.setup.hyper.momentum = momentum ? 0.75 : 0;
    model.setup.hyper.nesterov = nesterov;
    reference::DenseOptimizer optimizer(model.setup, model.state());

    // The implementation itself, called for the same gradients; the second ones are smaller, which
    // matters for amsgrad.
    std::vector<float> master = three(model.master);
    std::vector<float> first(3);
    std::vector<float> second(3);
    std::vector<float> largest(amsgrad ? 3 : 0);
    std::vector<float> buffer(momentum ? 3 : 0);
    for (const float size : {8.0F, 1.0F}) {
      CHECK(step(optimizer, {{3 * size, -20 * size, 5 * size}, {5 * size, -4 * size, 9 * size}}));
      const std::vector<float> grad = three(optimizer.last_step().grad);
      const StepScalars& s = optimizer.last_step().scalars[0];
      if (rule == UpdateRule::adamw) {
        reference::adamw_update({}, {amsgrad, maximize}, s, grad, master, first, second, largest);
      } else if (rule == UpdateRule::adam) {
        reference::adam_update({}, {amsgrad, maximize}, s, grad, master, first, second, largest);
      } else if (is_sgd) {
        reference::sgd_update({}, {momentum, nesterov, maximize}, s, grad, master, buffer);
      } else if (rule == UpdateRule::lion) {
        reference::lion_update({}, {maximize}, s, grad, master, first);
      } else if (rule == UpdateRule::lamb) {
        const auto update = [&](std::size_t begin, std::size_t count, float ratio) {
          const auto part = [&](std::vector<float>& values) {
            return Span<float>(values).subspan(begin, count);
          };
          reference::lamb_update({}, {maximize}, s, ratio,
                                 Span<const float>(grad).subspan(begin, count), part(master),
                                 part(first), part(second));
        };
        update(0, 2, optimizer.last_step().trust_ratio[0]);
        update(2, 1, optimizer.last_step().trust_ratio[1]);
      } else {
        reference::sgd_ema_update({}, {maximize}, s, grad, master, first);
      }
    }
    CHECK(bits(three(optimizer.master())) == bits(master));
    if (amsgrad) CHECK(bits(three(optimizer.state(BufferId::max_exp_avg_sq))) == bits(largest));
    if (momentum) CHECK(bits(three(optimizer.state(BufferId::momentum_buffer))) == bits(buffer));
  }
}

TEST_CASE("dense: the divisor is the number of tokens") {
  ThreeElements model;
  model.setup.micro_batches = 4;
  model.setup.loss_reduction = LossReduction::tokens;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  // 1 + 7 + 2 + 6 = 16 tokens and S = 4.
  const std::vector<std::vector<float>> leaves = {{64, 0, 0}, {0, -128, 0}, {0, -64, 0}, {0, 0, 0}};
  CHECK(step(optimizer, leaves, {{1, 7, 2, 6}, {}}));
  CHECK(optimizer.last_step().scalars[0].inv_scale == 0x1p-6F);
  CHECK(three(optimizer.last_step().unscaled_grad) == std::vector<float>{1, -3, 0});

  // No tokens: divided by 1.
  CHECK(step(optimizer, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, {{0, 0, 0, 0}, {}}));
  CHECK(optimizer.last_step().scalars[0].inv_scale == 0.25F);

  ZP_CHECK_INVALID(step(optimizer, leaves));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{1, 7, 2}, {}}));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{1, 7, -1, 6}, {}}));
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  ZP_CHECK_INVALID(step(optimizer, leaves, {{limit, 0, 0, 0}, {}}));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{limit - 1, 1, 0, 0}, {}}));
}

TEST_CASE("dense: a tensor without a gradient is not updated, and has its own count") {
  ThreeElements model;
  model.setup.micro_batches = 2;
  model.setup.scaler = {};
  model.scaler = {};
  model.setup.hyper.rule = UpdateRule::sgd;
  model.setup.hyper.momentum = 0.5;
  model.setup.hyper.weight_decay = 0.5;  // would change an updated tensor
  model.setup.missing_grad = MissingGrad::skip;
  const reference::MicroBatchFacts both = {{}, {{true, false}, {false, true}}};
  const reference::MicroBatchFacts pair_only = {{}, {{false, false}, {true, false}}};

  reference::DenseOptimizer optimizer(model.setup, model.state());
  // Both for the first time. g = grad + m/2 is 5, -5 and 8; the buffer becomes g; m - g/4.
  CHECK(step(optimizer, {{2, -6, 0}, {0, 0, 0}},
             pair_only));  // the single one is not updated: no gradient, no decay
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{1, 0});
  CHECK(optimizer.applied_steps() == 1);
  CHECK(three(optimizer.state(BufferId::momentum_buffer)) == std::vector<float>{5, -5, 0});
  CHECK(three(optimizer.master()) == std::vector<float>{6.75F, -2.75F, 16});

  // Now the single one starts: t = 1 for it, t = 2 for the pair.
  //   grad      1/8            -5/8           1
  //   g         7/2            -2             9
  //   buffer    5/2 + 7/2 = 6  -5/2 - 2       9
  //   master    21/4           -13/8          55/4
  CHECK(step(optimizer, {{0.25F, -1.25F, 2}, {0, 0, 0}}, both));
  CHECK(optimizer.last_step().scalars.size() == 2);
  CHECK(optimizer.last_step().scalars[0].is_first == 0);
  CHECK(optimizer.last_step().scalars[1].is_first == 1);
  CHECK(three(optimizer.state(BufferId::momentum_buffer)) == std::vector<float>{6, -4.5F, 9});
  CHECK(three(optimizer.master()) == std::vector<float>{5.25F, -1.625F, 13.75F});
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{2, 1});

  // No tensor is updated: only the run's counter changes. The norm is that of the gradients.
  const reference::MicroBatchFacts none = {{}, {{false, false}, {false, false}}};
  CHECK(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, none));
  CHECK(optimizer.last_step().grad_norm.front() == 0);
  CHECK(three(optimizer.state(BufferId::momentum_buffer)) == std::vector<float>{6, -4.5F, 9});
  CHECK(three(optimizer.master()) == std::vector<float>{5.25F, -1.625F, 13.75F});
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{2, 1});
  CHECK(optimizer.applied_steps() == 3);

  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}));
  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, {{}, {{true, true}}}));
  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, {{}, {{true, true}, {true}}}));
}

TEST_CASE("dense: bias correction of a tensor that was not updated") {
  ThreeElements model;
  model.setup.missing_grad = MissingGrad::skip;
  model.tensor_steps = {0, 1};
  model.applied_steps = 4;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}, {{}, {{true, true}, {true, true}}}));
  CHECK(optimizer.last_step().scalars[0].step_size == 0.5F);                             // t = 1
  CHECK(optimizer.last_step().scalars[1].step_size == static_cast<float>(0.25 / 0.75));  // t = 2
  CHECK(optimizer.last_step().scalars[1].inv_scale == 0.125F);
  // The pair makes the first step of adam_test.cpp, as in "one whole step by hand".
  CHECK(three(optimizer.master()) == std::vector<float>{6.875F, -3.3125F, 14});
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{1, 2});
  CHECK(optimizer.applied_steps() == 5);
}

TEST_CASE("dense: every form of the norm, and clipping by value") {
  const std::vector<std::vector<float>> leaves = {{24, -32, 96}, {0, 0, 0}};  // g1 = 3, -4, 12
  ThreeElements model;
  const auto norm = [&](NormForm form) {
    model.setup.hyper.norm = form;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(step(optimizer, leaves));
    return optimizer.last_step().grad_norm.front();
  };
  CHECK(norm(NormForm::chunk1024) == 13);
  CHECK(norm(NormForm::exact) == 13);
  CHECK(norm(NormForm::one) == 19);
  CHECK(norm(NormForm::inf) == 12);

  // First by the norm, then by value: max_norm 12 in the form inf keeps all but 1e-6 of it.
  model.setup.hyper.max_norm = 6 + 5e-7;  // half of 12 + 1e-6
  model.setup.hyper.clip_value = 1.75;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, leaves));
  CHECK(optimizer.last_step().clip_coef.front() == 0.5F);
  CHECK(three(optimizer.last_step().unscaled_grad) == std::vector<float>{3, -4, 12});
  CHECK(three(optimizer.last_step().grad) == std::vector<float>{1.5F, -1.75F, 1.75F});
}

TEST_CASE("dense: an overflow under every policy") {
  const std::vector<std::vector<float>> good = {{3, -20, 5}, {5, -4, -5}};
  const std::vector<std::vector<float>> bad = {{8, inf32, 0}, {0, 0, 0}};
  ThreeElements model;
  model.setup.on_nonfinite = OnNonfinite::error;
  reference::DenseOptimizer stopping(model.setup, model.state());
  CHECK(step(stopping, good));
  const std::vector<float> master = stopping.master();
  CHECK(error_code_of([&] { step(stopping, bad); }) == ErrorCode::nonfinite);
  CHECK(bits(stopping.master()) == bits(master));
  CHECK(stopping.applied_steps() == 1);
  CHECK(stopping.loss_scaler().log2_scale == 2);  // the loss scale does not change either
  CHECK(step(stopping, good));
  CHECK(stopping.applied_steps() == 2);

  // propagate: the scale changes, and the step is applied. N is infinite, q = max_norm / inf = 0,
  // and inf * 0 is NaN.
  model.setup.on_nonfinite = OnNonfinite::propagate;
  model.setup.hyper.max_norm = 1.0;
  model.setup.hyper.rule = UpdateRule::sgd;
  model.setup.hyper.weight_decay = 0;
  reference::DenseOptimizer going_on(model.setup, model.state());
  CHECK(step(going_on, bad));
  CHECK(going_on.last_step().found_inf);
  CHECK_FALSE(going_on.last_step().skipped);
  CHECK(going_on.loss_scaler().log2_scale == 1);
  CHECK(going_on.last_step().grad_norm.front() == inf64);
  CHECK(bits(going_on.last_step().clip_coef.front()) == bits(0.0F));
  CHECK(bits(three(going_on.master())) == bits(std::vector<float>{8, nan32, 16}));
  CHECK(going_on.applied_steps() == 1);
}

TEST_CASE("dense: stochastic rounding draws by seed, position and the tensor's own count") {
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    ThreeElements model;
    for (std::size_t i = 0; i < 3; ++i)
      model.master[where[i]] = 1 + 0x1p-8F;  // midway: a draw decides
    model.setup.missing_grad = missing;
    model.setup.param_rounding = ParamRounding::stochastic;
    model.setup.seed = 77;
    model.tensor_steps = {3, 9};
    model.applied_steps = 12;
    int ups = 0;
    for (std::int64_t later = 0; later < 20; ++later) {
      model.applied_steps += later;
      for (std::uint64_t& count : model.tensor_steps) count += static_cast<std::uint64_t>(later);
      const reference::DenseOptimizer optimizer(model.setup, model.state());
      for (std::size_t i = 0; i < 3; ++i) {
        const std::uint64_t count = missing == MissingGrad::zero
                                        ? static_cast<std::uint64_t>(model.applied_steps)
                                        : model.tensor_steps[i < 2 ? 0 : 1];
        const Philox philox(77, 0x53520001U, static_cast<std::uint32_t>(count));
        const bool up =
            philox.word(where[i]) >> 31 != 0;  // the upper half of the word is 2^15 or more
        CHECK(element_bits(optimizer.param(), static_cast<std::int64_t>(where[i])) ==
              (up ? 0x3F81U : 0x3F80U));
        ups += up ? 1 : 0;
      }
    }
    CHECK(ups > 10);
    CHECK(ups < 50);
  }
}

TEST_CASE("dense: a loaded state restores parameters, and a tensor without a gradient keeps them") {
  ThreeElements model;
  model.setup.missing_grad = MissingGrad::skip;
  model.setup.param_rounding = ParamRounding::stochastic;
  reference::DenseOptimizer first(model.setup, model.state());
  const std::vector<std::vector<float>> leaves = {{3.3F, -20, 5.1F}, {5, -4, -5}};
  CHECK(step(first, leaves, {{}, {{true, true}, {true, true}}}));
  const std::uint64_t single = element_bits(first.param(), 1024);
  CHECK(step(first, leaves, {{}, {{true, false}, {true, false}}}));
  CHECK(element_bits(first.param(), 1024) == single);

  FullState saved;
  saved.master = first.master();
  saved.slots = {first.state(BufferId::exp_avg), first.state(BufferId::exp_avg_sq)};
  saved.tensor_steps = first.tensor_steps();
  saved.applied_steps = first.applied_steps();
  saved.scaler = first.loss_scaler();
  const reference::DenseOptimizer second(model.setup, saved);
  for (const std::size_t i : where) {
    const std::int64_t at = static_cast<std::int64_t>(i);
    CHECK(element_bits(second.param(), at) == element_bits(first.param(), at));
  }
}
