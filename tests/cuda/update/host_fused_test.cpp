// The fused pass over a gradient in a 16-bit type, and its options. Its bits are those of the phases
// that it replaces (R17): `zeroproof verify op/fused_*`, and positions_test with the oracle.

#include <doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"

namespace host_fused_test {

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

constexpr std::size_t elements = 16384 + 1024 + 37;
constexpr float clip_coef = 0.7F;

std::vector<float> values(std::uint64_t seed, float scale) {
  const Philox philox(seed);
  std::vector<float> out(elements);
  for (std::size_t i = 0; i < elements; ++i) out[i] = philox.bell(i) * scale;
  out[5] = 0.0F;
  out[6] = -0.0F;
  out[7] = 0x1p-149F;
  return out;
}

struct State {
  std::vector<float> grad_sum = values(1, 3.0F);
  std::vector<float> master = values(2, 1.0F);
  std::vector<float> exp_avg = values(3, 0.1F);
  std::vector<float> exp_avg_sq;
  std::vector<std::byte> param = std::vector<std::byte>(elements * 2);

  State() {
    for (const float x : values(4, 0.1F)) exp_avg_sq.push_back(x * x);
  }
};

/// The same start for every setting; drawing it is the slow part.
const State& start() {
  static const State state;
  return state;
}

/// The gradient sum rounded to a 16-bit type, and its values in fp32.
template <class T, auto* narrow, auto* widen>
void check_leaf(const Exec& exec, DType dtype, float last) {
  State wide = start();
  wide.grad_sum[elements - 1] = last;
  std::vector<T> leaf(elements);
  narrow(exec, wide.grad_sum, leaf);
  widen(exec, leaf, wide.grad_sum);
  const host::GradStretch stretch{leaf.data(), dtype};
  constexpr float inv_scale = 0.3F;
  NormLimbs want, got;
  const bool found = host::fused_finite_and_norm(exec, inv_scale, wide.grad_sum, want);
  CHECK(found == !(last < 100.0F));
  CHECK(host::fused_finite_and_norm(exec, inv_scale, stretch, elements, got) == found);
  CHECK(got == want);
  State half = wide;
  const StepScalars scalars = host::step_scalars({}, 3, 0, 1);
  for (State* state : {&wide, &half}) {
    const host::FusedState of{state->master, {state->exp_avg, state->exp_avg_sq}};
    const TensorView param{state->param.data(), DType::bf16, elements};
    if (state == &wide) host::fused_update(exec, {}, scalars, clip_coef, wide.grad_sum, of, param);
    if (state == &half) host::fused_update(exec, {}, scalars, clip_coef, stretch, of, param);
  }
  CHECK(half.param == wide.param);
  CHECK(half.master != start().master);
  for (const auto member : {&State::master, &State::exp_avg, &State::exp_avg_sq}) {
    CHECK(std::equal((half.*member).begin(), (half.*member).end() - 1, (wide.*member).begin()));
  }
}

}  // namespace

TEST_CASE("fused: a gradient in a 16-bit type equals its fp32 values") {
  for (const Exec& exec : tests::every_exec()) {
    for (const float last : {1.0F, std::numeric_limits<float>::infinity()}) {
      check_leaf<bf16, host::cast_to_bf16, host::widen_bf16>(exec, DType::bf16, last);
      check_leaf<fp16, host::cast_to_fp16, host::widen_fp16>(exec, DType::fp16, last);
    }
  }
}

TEST_CASE("fused: parameters of 16 MiB and more are streamed past the caches") {
  CHECK(host::streams_past_caches(std::int64_t{16} << 20));
  CHECK_FALSE(host::streams_past_caches((std::int64_t{16} << 20) - 1));
}

TEST_CASE("fused: options come from the settings of the run") {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::sgd;
  hyper.momentum = 0.9;
  hyper.nesterov = hyper.maximize = true;
  hyper.clip_value = 0.1;
  const host::FusedOptions options = host::fused_options(hyper);
  CHECK(options.rule == UpdateRule::sgd);
  CHECK(options.momentum);
  CHECK(options.nesterov);
  CHECK(options.maximize);
  CHECK_FALSE(options.amsgrad);
  CHECK(options.clip_value == 0.1F);
  CHECK_FALSE(host::fused_options({}).clip_value.has_value());
  CHECK_FALSE(host::fused_options({}).momentum);
}

}  // namespace host_fused_test
