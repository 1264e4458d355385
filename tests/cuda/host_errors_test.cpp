// Bad input of the host twins and the production optimizer: one sentence, never a crash.

#include <doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/isa.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/host/step_scalars.hpp"
#include "tests/cuda/expect_error.hpp"

namespace {

using namespace zeroproof;
using tests::expect_error;
namespace host = zeroproof::cuda::host;

const Exec exec{};

}  // namespace

TEST_CASE("host twins refuse buffers of different lengths") {
  std::vector<float> three(3), four(4);
  std::vector<bf16> halves(4);
  std::vector<fp16> half_precision(4);
  const StepScalars scalars = host::step_scalars({}, 1, 0, 1);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  refused([&] { host::cast_to_bf16(exec, three, halves); });
  refused([&] { host::cast_to_fp16(exec, three, half_precision); });
  refused([&] { host::widen_bf16(exec, halves, three); });
  refused([&] { host::widen_fp16(exec, half_precision, three); });
  refused([&] { host::unscale(exec, 1.0F, three, four); });
  refused([&] { host::clip(exec, 1.0F, three, four); });
  refused([&] { host::add_nodes(exec, three, four, four); });
  refused([&] { host::add_nodes(exec, four, four, three); });
  refused([&] { host::adamw_update(exec, scalars, three, four, three, three); });
  refused([&] { host::adamw_update(exec, scalars, three, three, four, three); });
  refused([&] { host::adamw_update(exec, scalars, three, three, three, four); });
  refused([&] { host::grad_sum(exec, {}, three); });
  const std::vector<Span<const float>> leaves = {three, four};
  refused([&] { host::grad_sum(exec, leaves, three); });
  refused([&] { host::maximal_nodes(-1, 2); });
  refused([&] { host::maximal_nodes(3, 2); });
  refused([&] {
    host::fused_update(exec, scalars, 1.0F, three, three, three, three, {four.data(), DType::fp32, 4});
  });
  refused([&] {
    host::fused_update(exec, scalars, 1.0F, three, three, three, three, {four.data(), DType::fp64, 3});
  });
}

TEST_CASE("the loss scaler refuses settings under which it could not move") {
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

TEST_CASE("the production optimizer refuses setups that do not fit") {
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
  refused([](OptimizerSetup& s) { s.stage = 3; });
  refused([](OptimizerSetup& s) { s.stage = -1; });
  refused([](OptimizerSetup& s) { s.micro_batches = 0; });
  refused([&](OptimizerSetup& s) { s.layout = &other; });
  refused([&](OptimizerSetup& s) { s.shards = &two_ranks; });
  refused([](OptimizerSetup& s) { s.param_dtype = DType::u32; });
  refused([](OptimizerSetup& s) { s.leaf_dtype = DType::fp64; });
  refused([](OptimizerSetup& s) { s.hyper.eps = 0; });
  refused([](OptimizerSetup& s) { s.hyper.beta2 = 1.0F; });
  refused([](OptimizerSetup& s) { s.hyper.max_norm = -1.0; });
  refused([](OptimizerSetup& s) { s.hyper.lr = std::numeric_limits<double>::quiet_NaN(); });
  refused([](OptimizerSetup& s) { s.scaler.growth_interval = 0; });
  const auto optimizer = cuda::make_distributed_optimizer(setup());
  const std::vector<float> full(static_cast<std::size_t>(layout.padded_numel()));
  const std::vector<float> shorter(full.size() - 1);
  expect_error(ErrorCode::invalid_argument, [&] { optimizer->load_state({shorter, full, full, 0, {}}); });
  expect_error(ErrorCode::invalid_argument, [&] { optimizer->load_state({full, full, full, -1, {}}); });
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
