#include "common/base/float_formats.hpp"
#include "tests/reference/step/dense_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("dense: one whole step by hand") {
  const ThreeElements model;
  reference::DenseOptimizer optimizer(model.setup, model.state());

  // S = 4 and M = 2: the gradients add up to 8 times the gradient 1, -3, 0 of adam_test.cpp, whose
  // first step this is (1 - beta1 = 1/2 makes step_size 1/2, and sqrt(1 - beta2) = 1/2).
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));
  const reference::DenseStep& last = optimizer.last_step();
  CHECK(last.scalars[0].inv_scale == 0.125F);
  CHECK(three(last.grad_sum) == std::vector<float>{8, -24, 0});
  CHECK(three(last.unscaled_grad) == std::vector<float>{1, -3, 0});
  CHECK(bits(last.grad_norm.front()) == bits(std::sqrt(10.0)));
  CHECK(last.clip_coef.front() == 1.0F);
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
  CHECK(std::isnan(optimizer.last_step().grad_norm.front()));
  CHECK(std::isnan(optimizer.last_step().clip_coef.front()));
  CHECK(bits(optimizer.master()) == bits(master));
  CHECK(bits(optimizer.state(BufferId::exp_avg)) == bits(exp_avg));
  CHECK(optimizer.applied_steps() == 1);
  CHECK(optimizer.loss_scaler().log2_scale == 1);

  // The next step is step 2 again, with S = 2: the second step of adam_test.cpp needs 1/2, -3/2, 1
  // times 4.
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
  CHECK(optimizer.last_step().grad_norm.front() == 5);
  const float coef = 0.5F - 3 * 0x1p-25F;  // computed in grad_scale_clip_test.cpp
  CHECK(bits(optimizer.last_step().clip_coef.front()) == bits(coef));
  CHECK(bits(three(optimizer.last_step().grad)) ==
        bits(std::vector<float>{3 * coef, -4 * coef, 0}));
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

TEST_CASE("dense: buffers by their ids") {
  ThreeElements model;
  model.setup.missing_grad = MissingGrad::skip;
  model.tensor_steps = {4, 6};
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}, {{}, {{true, false}, {true, false}}}));
  const TensorView scalars = optimizer.buffer(BufferId::step_scalars);
  CHECK(scalars.data == optimizer.last_step().scalars.data());
  CHECK(scalars.dtype == DType::u32);
  CHECK(scalars.numel == 2 * num_step_scalar_words);
  const TensorView steps = optimizer.buffer(BufferId::tensor_steps);
  CHECK(read<std::array<std::uint64_t, 2>>(steps) == std::array<std::uint64_t, 2>{5, 6});
  CHECK(steps.dtype == DType::u64);
  CHECK(steps.numel == 2);
  CHECK(optimizer.buffer(BufferId::master).data == optimizer.master().data());
  CHECK(optimizer.buffer(BufferId::grad_sum).data == optimizer.last_step().grad_sum.data());
  CHECK(optimizer.buffer(BufferId::unscaled_grad).data ==
        optimizer.last_step().unscaled_grad.data());
  CHECK(optimizer.buffer(BufferId::grad).data == optimizer.last_step().grad.data());
  CHECK(optimizer.buffer(BufferId::exp_avg).data == optimizer.state(BufferId::exp_avg).data());
  CHECK(optimizer.buffer(BufferId::param_shard).data == optimizer.param().data);
  CHECK(optimizer.buffer(BufferId::param_full).numel == 2048);
  for (const BufferId none :
       {BufferId::grad_amax, BufferId::momentum_buffer, BufferId::max_exp_avg_sq}) {
    CHECK(optimizer.buffer(none).data == nullptr);
  }
}

TEST_CASE("dense: words, by hand") {
  ThreeElements model;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));  // g1 = (8, -24, 0) / (4 * 2)
  CHECK(read<NormLimbs>(optimizer.buffer(BufferId::norm_limbs)).limbs[11] ==
        1 + 9);  // units of 2^0
  CHECK(read<double>(optimizer.buffer(BufferId::grad_norm)) == std::sqrt(10.0));
  CHECK(read<float>(optimizer.buffer(BufferId::clip_coef)) == 1.0F);
  CHECK(read<std::uint64_t>(optimizer.buffer(BufferId::applied_steps)) == 1);
  CHECK(read<std::uint32_t>(optimizer.buffer(BufferId::found_inf)) == 0);
  CHECK(read<LossScalerState>(optimizer.buffer(BufferId::loss_scaler)).growth_tracker == 1);
  CHECK_FALSE(step(optimizer, {{3, inf32, 5}, {5, -4, -5}}));
  CHECK(read<std::uint32_t>(optimizer.buffer(BufferId::found_inf)) == 1);
  CHECK(read<LossScalerState>(optimizer.buffer(BufferId::loss_scaler)).log2_scale == 1);
  CHECK(std::isnan(read<float>(optimizer.buffer(BufferId::clip_coef))));

  model.setup.hyper.norm = NormForm::inf;
  reference::DenseOptimizer largest(model.setup, model.state());
  CHECK(step(largest, {{3, -20, 5}, {5, -4, -5}}));
  CHECK(read<std::uint32_t>(largest.buffer(BufferId::grad_amax)) == 0x40400000U);  // 3
  CHECK(largest.buffer(BufferId::norm_limbs).data == nullptr);
}

TEST_CASE("dense: invalid arguments are rejected") {
  const auto make = [](const ThreeElements& model) {
    reference::DenseOptimizer(model.setup, model.state());
  };
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
  model.tensor_steps = {1, 1, 1};
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
  ZP_CHECK_INVALID(step(optimizer, {{1, 1, 1}}));  // one gradient, M = 2
  std::vector<std::uint32_t> words(2048);
  const TensorView integers{words.data(), DType::u32, 2048};
  ZP_CHECK_INVALID(optimizer.step({integers, integers}));
}
