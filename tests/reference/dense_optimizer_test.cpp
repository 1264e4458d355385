#include "reference/dense_optimizer.hpp"

#include <numeric>

#include "common/base/float_formats.hpp"
#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Three elements in two tensors; the global indices are 0, 1 and 1024.
const std::vector<std::size_t> where = {0, 1, 1024};

struct ThreeElements {
  ThreeElements() : layout({{"pair", {2}}, {"single", {1}}}), zeros(2048, 0.0F), master(2048, nan32) {
    const std::vector<float> start = {8, -4, 16};
    for (std::size_t i = 0; i < 3; ++i) master[where[i]] = start[i];
    setup.layout = &layout;
    setup.micro_batches = 2;
    setup.hyper.lr = 0.25;
    setup.hyper.beta1 = 0.5F;
    setup.hyper.beta2 = 0.75F;
    setup.hyper.eps = 1;
    setup.hyper.weight_decay = 0.5;
    setup.hyper.max_norm.reset();
    setup.scaler.kind = LossScalerKind::dynamic;
    setup.scaler.log2_initial = 2;
    scaler.log2_scale = 2;
  }

  FullState state() const {
    FullState state{master, zeros, zeros, zeros, zeros, tensor_steps, 0, scaler};
    state.applied_steps = applied_steps;
    return state;
  }

  FlatLayout layout;
  std::vector<float> zeros, master;
  std::vector<std::uint64_t> tensor_steps = {0, 0};
  std::int64_t applied_steps = 0;
  LossScalerState scaler;
  reference::DenseSetup setup;
};

/// A step with fp32 leaves whose padding is NaN.
bool step(reference::DenseOptimizer& optimizer, const std::vector<std::vector<float>>& gradients,
          const reference::MicroBatchFacts& facts = {}) {
  std::vector<std::vector<float>> leaves;
  std::vector<TensorView> views;
  for (const std::vector<float>& gradient : gradients) {
    leaves.emplace_back(2048, nan32);
    for (std::size_t i = 0; i < 3; ++i) leaves.back()[where[i]] = gradient[i];
  }
  for (std::vector<float>& leaf : leaves) views.push_back({leaf.data(), DType::fp32, 2048});
  return optimizer.step(views, facts);
}

std::vector<float> three(const std::vector<float>& values) {
  return {values[where[0]], values[where[1]], values[where[2]]};
}

}  // namespace

TEST_CASE("dense: one whole step by hand") {
  const ThreeElements model;
  reference::DenseOptimizer optimizer(model.setup, model.state());

  // S = 4 and M = 2: the leaves add up to 8 times the gradient 1, -3, 0 of adam_test.cpp, whose first step
  // this is (1 - beta1 = 1/2 makes step_size 1/2, and sqrt(1 - beta2) = 1/2).
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));
  const reference::DenseStep& last = optimizer.last_step();
  CHECK(last.scalars[0].inv_scale == 0.125F);
  CHECK(three(last.grad_sum) == std::vector<float>{8, -24, 0});
  CHECK(three(last.unscaled_grad) == std::vector<float>{1, -3, 0});
  CHECK(bits(last.grad_norm) == bits(std::sqrt(10.0)));
  CHECK(last.clip_coef == 1.0F);
  CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(three(optimizer.state(BufferId::exp_avg_sq)) == std::vector<float>{0.25F, 2.25F, 0});
  CHECK(three(optimizer.master()) == std::vector<float>{6.875F, -3.3125F, 14});
  CHECK(optimizer.applied_steps() == 1);
  CHECK(std::isnan(optimizer.master()[2]));
  CHECK(std::isnan(last.grad[1023]));
}

TEST_CASE("dense: a skipped step changes nothing but the loss scale") {
  const ThreeElements model;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));
  const std::vector<float> master = optimizer.master();
  const std::vector<float> exp_avg = optimizer.state(BufferId::exp_avg);

  CHECK_FALSE(step(optimizer, {{1, inf32, 1}, {1, 1, 1}}));
  CHECK(optimizer.last_step().found_inf);
  CHECK(optimizer.last_step().skipped);
  CHECK(std::isnan(optimizer.last_step().grad_norm));
  CHECK(std::isnan(optimizer.last_step().clip_coef));
  CHECK(bits(optimizer.master()) == bits(master));
  CHECK(bits(optimizer.state(BufferId::exp_avg)) == bits(exp_avg));
  CHECK(optimizer.applied_steps() == 1);
  CHECK(optimizer.loss_scaler().log2_scale == 1);

  // The next step is step 2 again, with S = 2: the second step of adam_test.cpp needs 1/2, -3/2, 1 times 4.
  CHECK(step(optimizer, {{1, -6, 4}, {1, 0, 0}}));
  CHECK(optimizer.last_step().log2_loss_scale == 1);
  CHECK(three(optimizer.last_step().unscaled_grad) == std::vector<float>{0.5F, -1.5F, 1});
  CHECK(bits(optimizer.last_step().scalars[0].step_size) == bits(static_cast<float>(0.25 / 0.75)));
  CHECK(three(optimizer.state(BufferId::exp_avg_sq)) == std::vector<float>{0.25F, 2.25F, 0.25F});
  CHECK(optimizer.applied_steps() == 2);
}

TEST_CASE("dense: clipping binds") {
  ThreeElements model;
  model.setup.hyper.max_norm = 2.5;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{24, -32, 0}, {0, 0, 0}}));  // g1 = 3, -4, 0
  CHECK(optimizer.last_step().grad_norm == 5);
  const float coef = 0.5F - 3 * 0x1p-25F;  // worked out in grad_scale_clip_test.cpp
  CHECK(bits(optimizer.last_step().clip_coef) == bits(coef));
  CHECK(bits(three(optimizer.last_step().grad)) == bits(std::vector<float>{3 * coef, -4 * coef, 0}));
}

TEST_CASE("dense: parameters in every format") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    ThreeElements model;
    model.master[0] = 1.001F;
    model.setup.param_dtype = dtype;
    const reference::DenseOptimizer optimizer(model.setup, model.state());
    const TensorView param = optimizer.param();
    CHECK(param.dtype == dtype);
    CHECK(param.numel == 2048);
    const std::uint32_t expected = dtype == DType::fp32   ? bits(1.001F)
                                   : dtype == DType::bf16 ? to_bf16(1.001F).bits
                                                          : to_fp16(1.001F).bits;
    CHECK(element_bits(param, 0) == expected);
    CHECK(element_bits(param, 5) == (dtype == DType::fp32 ? 0x7FFFFFFFU : 0x7FFFU));
  }
}

TEST_CASE("dense: the other rules and the state they keep, by hand") {
  const std::vector<std::vector<float>> leaves = {{3, -20, 5}, {5, -4, -5}};  // g1 = 1, -3, 0
  ThreeElements model;
  model.setup.hyper.weight_decay = 0;

  model.setup.hyper.rule = UpdateRule::sgd;
  reference::DenseOptimizer sgd(model.setup, model.state());
  CHECK(step(sgd, leaves));
  CHECK(three(sgd.master()) == std::vector<float>{7.75F, -3.25F, 16});  // m - g/4
  CHECK(reference::state_buffers(model.setup.hyper).empty());
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
  model.setup.hyper.rule = UpdateRule::sgd_ema;
  reference::DenseOptimizer ema(model.setup, model.state());
  CHECK(step(ema, leaves));
  CHECK(three(ema.state(BufferId::exp_avg)) == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(three(ema.master()) == std::vector<float>{7.875F, -3.625F, 16});

  // adam: decay 1/2 of master turns the gradients -3, -1, -8 into 1, -3, 0: the first step of adam_test.cpp.
  model.applied_steps = 0;
  model.setup.hyper.rule = UpdateRule::adam;
  model.setup.hyper.weight_decay = 0.5;
  model.setup.hyper.amsgrad = true;
  reference::DenseOptimizer adam(model.setup, model.state());
  CHECK(step(adam, {{-24, -8, -64}, {0, 0, 0}}));
  CHECK(three(adam.master()) == std::vector<float>{7.875F, -3.8125F, 16});
  CHECK(three(adam.state(BufferId::max_exp_avg_sq)) == std::vector<float>{0.25F, 2.25F, 0});
  const std::vector<BufferId> expected = {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::max_exp_avg_sq};
  CHECK(reference::state_buffers(model.setup.hyper) == expected);
}

TEST_CASE("dense: the divisor counts tokens") {
  ThreeElements model;
  model.setup.micro_batches = 4;
  model.setup.loss_reduction = LossReduction::tokens;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  // 1 + 7 + 2 + 6 = 16 tokens and S = 4.
  const std::vector<std::vector<float>> leaves = {{64, 0, 0}, {0, -128, 0}, {0, -64, 0}, {0, 0, 0}};
  CHECK(step(optimizer, leaves, {{1, 7, 2, 6}, {}}));
  CHECK(optimizer.last_step().scalars[0].inv_scale == 0x1p-6F);
  CHECK(three(optimizer.last_step().unscaled_grad) == std::vector<float>{1, -3, 0});

  // No token at all: divided by 1.
  CHECK(step(optimizer, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, {{0, 0, 0, 0}, {}}));
  CHECK(optimizer.last_step().scalars[0].inv_scale == 0.25F);

  ZP_CHECK_INVALID(step(optimizer, leaves));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{1, 7, 2}, {}}));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{1, 7, -1, 6}, {}}));
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  ZP_CHECK_INVALID(step(optimizer, leaves, {{limit, 0, 0, 0}, {}}));
  ZP_CHECK_INVALID(step(optimizer, leaves, {{limit - 1, 1, 0, 0}, {}}));
}

TEST_CASE("dense: a tensor without a gradient rests, and has its own count") {
  ThreeElements model;
  model.setup.micro_batches = 2;
  model.setup.scaler = {};
  model.scaler = {};
  model.setup.hyper.rule = UpdateRule::sgd;
  model.setup.hyper.momentum = 0.5;
  model.setup.hyper.weight_decay = 0.5;  // would move a tensor that does not rest
  model.setup.missing_grad = MissingGrad::skip;
  const reference::MicroBatchFacts both = {{}, {{true, false}, {false, true}}};
  const reference::MicroBatchFacts pair_only = {{}, {{false, false}, {true, false}}};

  reference::DenseOptimizer optimizer(model.setup, model.state());
  // Both for the first time. g = grad + m/2 is 5, -5 and 8; the buffer becomes g; m - g/4.
  CHECK(step(optimizer, {{2, -6, 0}, {0, 0, 0}}, pair_only));  // the single one rests: no gradient, no decay
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

  // Everybody rests: only the run's counter moves. The norm is that of what the leaves hold.
  const reference::MicroBatchFacts none = {{}, {{false, false}, {false, false}}};
  CHECK(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, none));
  CHECK(optimizer.last_step().grad_norm == 0);
  CHECK(three(optimizer.state(BufferId::momentum_buffer)) == std::vector<float>{6, -4.5F, 9});
  CHECK(three(optimizer.master()) == std::vector<float>{5.25F, -1.625F, 13.75F});
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{2, 1});
  CHECK(optimizer.applied_steps() == 3);

  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}));
  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, {{}, {{true, true}}}));
  ZP_CHECK_INVALID(step(optimizer, {{0, 0, 0}, {0, 0, 0}}, {{}, {{true, true}, {true}}}));
}

TEST_CASE("dense: the bias correction of a tensor that rested") {
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
    return optimizer.last_step().grad_norm;
  };
  CHECK(norm(NormForm::chunk1024) == 13);
  CHECK(norm(NormForm::exact) == 13);
  CHECK(norm(NormForm::one) == 19);
  CHECK(norm(NormForm::inf) == 12);

  // First by the norm, then by value: max_norm 12 in the form inf leaves everything but 1e-6 of it.
  model.setup.hyper.max_norm = 6 + 5e-7;  // half of 12 + 1e-6
  model.setup.hyper.clip_value = 1.75;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, leaves));
  CHECK(optimizer.last_step().clip_coef == 0.5F);
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
  CHECK(stopping.loss_scaler().log2_scale == 2);  // not even the loss scale
  CHECK(step(stopping, good));
  CHECK(stopping.applied_steps() == 2);

  // propagate: the scale moves, and the step is made. N is infinite, q = max_norm / inf = 0, and inf * 0 is NaN.
  model.setup.on_nonfinite = OnNonfinite::propagate;
  model.setup.hyper.max_norm = 1.0;
  model.setup.hyper.rule = UpdateRule::sgd;
  model.setup.hyper.weight_decay = 0;
  reference::DenseOptimizer going_on(model.setup, model.state());
  CHECK(step(going_on, bad));
  CHECK(going_on.last_step().found_inf);
  CHECK_FALSE(going_on.last_step().skipped);
  CHECK(going_on.loss_scaler().log2_scale == 1);
  CHECK(going_on.last_step().grad_norm == inf64);
  CHECK(bits(going_on.last_step().clip_coef) == bits(0.0F));
  CHECK(bits(three(going_on.master())) == bits(std::vector<float>{8, nan32, 16}));
  CHECK(going_on.applied_steps() == 1);
}

TEST_CASE("dense: stochastic rounding draws by seed, place and the tensor's own count") {
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    ThreeElements model;
    for (std::size_t i = 0; i < 3; ++i) model.master[where[i]] = 1 + 0x1p-8F;  // midway: a draw decides
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
        const bool up = philox.word(where[i]) >> 31 != 0;  // the upper half of the word is 2^15 or more
        CHECK(element_bits(optimizer.param(), static_cast<std::int64_t>(where[i])) ==
              (up ? 0x3F81U : 0x3F80U));
        ups += up ? 1 : 0;
      }
    }
    CHECK(ups > 10);
    CHECK(ups < 50);
  }
}

TEST_CASE("dense: a loaded state has the parameters it had, and a resting tensor keeps them") {
  ThreeElements model;
  model.setup.missing_grad = MissingGrad::skip;
  model.setup.param_rounding = ParamRounding::stochastic;
  reference::DenseOptimizer first(model.setup, model.state());
  const std::vector<std::vector<float>> leaves = {{3.3F, -20, 5.1F}, {5, -4, -5}};
  CHECK(step(first, leaves, {{}, {{true, true}, {true, true}}}));
  const std::uint32_t single = element_bits(first.param(), 1024);
  CHECK(step(first, leaves, {{}, {{true, false}, {true, false}}}));
  CHECK(element_bits(first.param(), 1024) == single);

  const FullState saved{first.master(),
                        first.state(BufferId::exp_avg),
                        first.state(BufferId::exp_avg_sq),
                        {},
                        {},
                        first.tensor_steps(),
                        first.applied_steps(),
                        first.loss_scaler()};
  const reference::DenseOptimizer second(model.setup, saved);
  for (const std::size_t i : where) {
    const std::int64_t at = static_cast<std::int64_t>(i);
    CHECK(element_bits(second.param(), at) == element_bits(first.param(), at));
  }
}

TEST_CASE("dense: what its buffers are called") {
  const ThreeElements model;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(optimizer.buffer(BufferId::master).data == optimizer.master().data());
  CHECK(optimizer.buffer(BufferId::grad_sum).data == optimizer.last_step().grad_sum.data());
  CHECK(optimizer.buffer(BufferId::unscaled_grad).data == optimizer.last_step().unscaled_grad.data());
  CHECK(optimizer.buffer(BufferId::grad).data == optimizer.last_step().grad.data());
  CHECK(optimizer.buffer(BufferId::exp_avg).data == optimizer.state(BufferId::exp_avg).data());
  CHECK(optimizer.buffer(BufferId::param_shard).data == optimizer.param().data);
  CHECK(optimizer.buffer(BufferId::param_full).numel == 2048);
  for (const BufferId none : {BufferId::step_scalars, BufferId::grad_norm, BufferId::max_exp_avg_sq}) {
    CHECK(optimizer.buffer(none).data == nullptr);
  }
}

TEST_CASE("dense: what is refused") {
  const auto make = [](const ThreeElements& model) { reference::DenseOptimizer(model.setup, model.state()); };
  ThreeElements model;
  make(model);
  model.setup.layout = nullptr;
  ZP_CHECK_INVALID(make(model));
  model = ThreeElements();
  model.setup.layout = &model.layout;
  model.setup.micro_batches = 0;
  ZP_CHECK_INVALID(make(model));
  model.setup.micro_batches = 1;
  model.setup.hyper.eps = 0;
  ZP_CHECK_INVALID(make(model));
  model.setup.hyper.eps = 1;
  model.setup.hyper.dampening = 0.5;  // and the rule is adamw
  ZP_CHECK_INVALID(make(model));
  model.setup.hyper.dampening = 0;
  model.setup.param_dtype = DType::fp16;
  make(model);
  model.setup.param_rounding = ParamRounding::stochastic;
  ZP_CHECK_INVALID(make(model));
  model.setup.param_dtype = DType::bf16;
  make(model);
  model.setup.missing_grad = MissingGrad::skip;
  make(model);
  model.tensor_steps = {1};
  ZP_CHECK_INVALID(make(model));
  model.tensor_steps = {1, std::uint64_t{1} << 63};
  ZP_CHECK_INVALID(make(model));
  model.tensor_steps = {1, 1};
  model.applied_steps = -1;
  ZP_CHECK_INVALID(make(model));
  model.applied_steps = std::numeric_limits<std::int64_t>::max();
  ZP_CHECK_INVALID(make(model));
  model.applied_steps = 0;
  make(model);
  model.master.pop_back();
  ZP_CHECK_INVALID(make(model));

  const ThreeElements good;
  reference::DenseOptimizer optimizer(good.setup, good.state());
  ZP_CHECK_INVALID(step(optimizer, {{1, 1, 1}}));  // one leaf, M = 2
  std::vector<std::uint32_t> words(2048);
  const TensorView integers{words.data(), DType::u32, 2048};
  ZP_CHECK_INVALID(optimizer.step({integers, integers}));
}
