// Bad input of the host implementations and the production optimizer: always an error, never a
// crash.

#include <doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/expect_error.hpp"

namespace host_errors_test {

namespace {

using namespace zeroproof;
using tests::expect_error;
namespace host = zeroproof::cuda::host;

const Exec exec{};

}  // namespace

// Of the other operations: tests/verification/ops/elementwise_test.cpp, for every implementation.
TEST_CASE("host implementations: buffers of different lengths are errors") {
  std::vector<float> three(3), four(4);
  const StepScalars scalars = host::step_scalars({}, 1, 0, 1);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  refused([&] { host::unscale(exec, 1.0F, three, four); });
  refused([&] { host::clip(exec, 1.0F, three, four); });
  refused([&] { host::add_nodes(exec, three, four, four); });
  refused([&] { host::add_nodes(exec, four, four, three); });
  std::vector<bf16> narrow3(3), narrow4(4);
  for (AdamwUpdateBf16Fn* update : {&host::adamw_update_bf16, &host::adam_update_bf16}) {
    refused([&] { update(exec, {}, scalars, narrow3, narrow4, three, three, {}); });
    refused([&] { update(exec, {}, scalars, narrow3, narrow3, four, three, {}); });
    refused([&] { update(exec, {}, scalars, narrow3, narrow3, three, four, {}); });
    refused([&] { update(exec, {true, false}, scalars, narrow3, narrow3, three, three, four); });
    refused([&] { update(exec, {}, scalars, narrow3, narrow3, three, three, three); });
  }
  refused([&] { host::sgd_update_bf16(exec, {}, scalars, narrow3, narrow4, {}); });
  refused([&] { host::sgd_update_bf16(exec, {true}, scalars, narrow3, narrow3, four); });
  refused([&] { host::sgd_update_bf16(exec, {}, scalars, narrow3, narrow3, three); });
  refused([&] { host::sgd_update_bf16(exec, {false, true}, scalars, narrow3, narrow3, {}); });
  refused([&] { host::lion_update_bf16(exec, {}, scalars, narrow3, narrow4, three); });
  refused([&] { host::lion_update_bf16(exec, {}, scalars, narrow3, narrow3, four); });
  refused([&] { host::grad_sum(exec, {}, three); });
  const std::vector<Span<const float>> leaves = {three, four};
  refused([&] { host::grad_sum(exec, leaves, three); });
  refused([&] { host::maximal_nodes(-1, 2); });
  refused([&] { host::maximal_nodes(3, 2); });
}

TEST_CASE("fused pass: state that does not match its rule is an error") {
  std::vector<float> three(3), four(4), none;
  std::vector<bf16> halves(3);
  const StepScalars scalars = host::step_scalars({}, 1, 0, 1);
  const TensorView param{halves.data(), DType::bf16, 3};
  const auto run = [&](const host::FusedOptions& options, const host::FusedState& state,
                       const TensorView& view) {
    host::fused_update(exec, options, scalars, 1.0F, three, state, view);
  };
  const auto refused = [&](const host::FusedOptions& options, const host::FusedState& state,
                           const TensorView& view) {
    expect_error(ErrorCode::invalid_argument, [&] { run(options, state, view); });
  };
  const host::FusedState adam{three, {three, three}};
  CHECK_NOTHROW(run({}, adam, param));
  refused({}, {four, {three, three}}, param);
  refused({}, {three, four, three}, param);
  refused({}, {three, three, four}, param);
  refused({}, {three, {three, three, three}}, param);
  refused({}, {three, three, three, none, three}, param);
  refused({}, adam, {four.data(), DType::fp32, 4});
  refused({}, adam, {four.data(), DType::fp64, 3});
  refused({}, adam, {four.data(), DType::e4m3, 3});
  refused({.amsgrad = true}, adam, param);
  refused({.nesterov = true}, adam, param);
  refused({.clip_value = 0.0F}, adam, param);
  refused({.draw = RoundingDraw{}}, adam, {four.data(), DType::fp16, 3});
  refused({.rule = UpdateRule::sgd}, adam, param);
  refused({.rule = UpdateRule::sgd, .momentum = true}, {three}, param);
  refused({.rule = UpdateRule::sgd, .nesterov = true}, {three}, param);
  refused({.rule = UpdateRule::sgd_ema}, {three}, param);
  refused({.rule = UpdateRule::sgd_ema}, adam, param);
  refused({.rule = UpdateRule::lion}, {three}, param);
  refused({.rule = UpdateRule::lion}, adam, param);
  refused({.rule = UpdateRule::lamb}, {three, {three}}, param);
  refused({.rule = UpdateRule::lamb, .amsgrad = true}, {three, {three, three, three}}, param);
  const host::GradStretch grad{three.data(), DType::fp32};
  for (const host::FusedState& state :
       {host::FusedState{three, {four, three}}, host::FusedState{three, {three, four}}}) {
    TrustNorms norms;
    expect_error(ErrorCode::invalid_argument,
                 [&] { host::fused_lamb_norms(exec, {}, scalars, 1.0F, grad, state, norms); });
  }
  CHECK_NOTHROW(run({.rule = UpdateRule::sgd}, {three}, param));
}

TEST_CASE("loss scaler: settings without a possible change are errors") {
  const auto refused = [](const std::function<void(LossScalerConfig&)>& change) {
    LossScalerConfig config;
    config.kind = LossScalerKind::dynamic;
    change(config);
    expect_error(ErrorCode::invalid_argument, [&] { host::loss_scaler_init(config); });
    expect_error(ErrorCode::invalid_argument, [&] { host::loss_scaler_update(config, {}, true); });
  };
  refused([](LossScalerConfig& c) { c.growth_interval = 0; });
  refused([](LossScalerConfig& c) { c.hysteresis = 0; });
  refused([](LossScalerConfig& c) { c.log2_growth = 0; });
  refused([](LossScalerConfig& c) { c.log2_backoff = -1; });
  refused([](LossScalerConfig& c) { c.log2_min = 5; });
  refused([](LossScalerConfig& c) { c.log2_max = -5; });
}

TEST_CASE("production optimizer: inconsistent setups are errors") {
  const FlatLayout layout({{"a", {5}}, {"b", {2000}}});
  const FlatLayout other({{"a", {5}}});
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const ShardMap two_ranks(layout.padded_numel(), 2, 1024);
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  const auto setup = [&] {
    OptimizerSetup good;
    good.layout = &layout;
    good.shards = &shards;
    good.comm = comm.get();
    return good;
  };
  CHECK_NOTHROW(cuda::make_distributed_optimizer(setup()));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = setup();
    change(bad);
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(bad); });
  };
  refused([](OptimizerSetup& s) { s.layout = nullptr; });
  refused([](OptimizerSetup& s) { s.shards = nullptr; });
  refused([](OptimizerSetup& s) { s.comm = nullptr; });
  refused([](OptimizerSetup& s) { s.stage = 4; });
  refused([](OptimizerSetup& s) { s.stage = -1; });
  refused([](OptimizerSetup& s) { s.micro_batches = 0; });
  refused([&](OptimizerSetup& s) { s.layout = &other; });
  refused([&](OptimizerSetup& s) { s.shards = &two_ranks; });
  refused([](OptimizerSetup& s) { s.param_dtype = DType::u32; });
  refused([](OptimizerSetup& s) { s.grad_dtype = DType::fp64; });
  refused([](OptimizerSetup& s) { s.hyper.eps = 0; });
  refused([](OptimizerSetup& s) { s.hyper.beta2 = 1.0F; });
  refused([](OptimizerSetup& s) { s.hyper.max_norm = -1.0; });
  refused([](OptimizerSetup& s) { s.hyper.clip_value = 0.0; });
  refused([](OptimizerSetup& s) { s.hyper.momentum = 0.9; });
  refused([](OptimizerSetup& s) { s.hyper.nesterov = true; });
  refused([](OptimizerSetup& s) { s.hyper.lr = std::numeric_limits<double>::quiet_NaN(); });
  refused([](OptimizerSetup& s) { s.scaler.growth_interval = 0; });
  const auto optimizer = cuda::make_distributed_optimizer(setup());
  const std::vector<float> full(layout.padded_numel());
  const std::vector<float> shorter(full.size() - 1);
  expect_error(ErrorCode::invalid_argument, [&] {
    optimizer->load_state({shorter, full, full, {}, {}, {}, 0, {}});
  });
  expect_error(ErrorCode::invalid_argument, [&] {
    optimizer->load_state({full, full, full, {}, {}, {}, -1, {}});
  });
  expect_error(ErrorCode::invalid_argument, [&] {
    optimizer->load_state({full, full, {}, {}, {}, {}, 0, {}});
  });
  CHECK_NOTHROW(optimizer->load_state({full, full, full, {}, {}, {}, 0, {}}));
}

TEST_CASE("a changed floating-point environment is an error, not a result") {
#if defined(__x86_64__)
  std::vector<float> values(100000, 1.0F);
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040U);  // flush-to-zero and denormals-are-zero
  expect_error(ErrorCode::fp_environment, [&] { host::clip(exec, 1.0F, values, values); });
  __builtin_ia32_ldmxcsr(before);
  CHECK_NOTHROW(host::clip(exec, 1.0F, values, values));
#endif
}

TEST_CASE("instruction sets: the baseline always runs, and names are those of the psABI") {
  const std::vector<Isa> isas = host::supported_isas();
  REQUIRE(!isas.empty());
  CHECK(isas.front() == Isa::x86_64);
  CHECK(host::name(Isa::x86_64_v4) == "x86-64-v4");
  for (const Isa isa : isas) CHECK(host::isa_supported(isa));
}

}  // namespace host_errors_test
