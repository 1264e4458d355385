// The fused pass has the bits of the phases that it replaces (R17): every rule, option and
// parameter type.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/every_exec.hpp"

namespace host_fused_test {

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

constexpr std::size_t elements = 16384 + 1024 + 37;
constexpr float clip_coef = 0.7F;
constexpr float trust_ratio = 0.3F;

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
  std::vector<float> exp_avg_sq, max_exp_avg_sq;
  std::vector<float> momentum_buffer = values(6, 0.1F);
  std::vector<std::byte> param = std::vector<std::byte>(elements * 4);

  State() {
    for (const float x : values(4, 0.1F)) exp_avg_sq.push_back(x * x);
    for (const float x : values(5, 0.1F)) max_exp_avg_sq.push_back(x * x);
  }
  bool operator==(const State&) const = default;
};

/// The same start for every setting; drawing it is the slow part.
const State& start() {
  static const State state;
  return state;
}

struct Setting {
  OptimizerHyper hyper;
  DType dtype = DType::bf16;
  std::optional<RoundingDraw> draw;
  std::int64_t t = 3;
};

template <class T>
Span<T> as(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), elements};
}

void cast(const Exec& exec, const Setting& setting, State& state) {
  if (setting.draw)
    return host::stochastic_cast_to_bf16(exec, *setting.draw, state.master, as<bf16>(state.param));
  if (setting.dtype == DType::bf16)
    return host::cast_to_bf16(exec, state.master, as<bf16>(state.param));
  if (setting.dtype == DType::fp16)
    return host::cast_to_fp16(exec, state.master, as<fp16>(state.param));
  std::ranges::copy(state.master, as<float>(state.param).begin());
}

void update(const Exec& exec, const OptimizerHyper& hyper, const StepScalars& c,
            Span<const float> grad, State& state) {
  const Span<float> most = hyper.amsgrad ? Span<float>(state.max_exp_avg_sq) : Span<float>();
  const Span<float> buffer =
      hyper.momentum != 0 ? Span<float>(state.momentum_buffer) : Span<float>();
  switch (hyper.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return host::adamw_update(exec, {hyper.amsgrad, hyper.maximize}, c, grad, state.master,
                                state.exp_avg, state.exp_avg_sq, most);
    case UpdateRule::adam:
      return host::adam_update(exec, {hyper.amsgrad, hyper.maximize}, c, grad, state.master,
                               state.exp_avg, state.exp_avg_sq, most);
    case UpdateRule::sgd:
      return host::sgd_update(exec, {hyper.momentum != 0, hyper.nesterov, hyper.maximize}, c, grad,
                              state.master, buffer);
    case UpdateRule::sgd_ema:
      return host::sgd_ema_update(exec, {hyper.maximize}, c, grad, state.master, state.exp_avg);
    case UpdateRule::lion:
      return host::lion_update(exec, {hyper.maximize}, c, grad, state.master, state.exp_avg);
    case UpdateRule::lamb:
      return host::lamb_update(exec, {hyper.maximize}, c, trust_ratio, grad, state.master,
                               state.exp_avg, state.exp_avg_sq);
  }
}

State phases(const Exec& exec, const Setting& setting, const StepScalars& c) {
  State state = start();
  std::vector<float> grad(elements);
  host::unscale(exec, c.inv_scale, state.grad_sum, grad);
  host::clip(exec, clip_coef, grad, grad);
  if (setting.hyper.clip_value)
    host::clip_value(exec, static_cast<float>(*setting.hyper.clip_value), grad);
  update(exec, setting.hyper, c, grad, state);
  cast(exec, setting, state);
  return state;
}

State fused(const Exec& exec, const Setting& setting, const StepScalars& c) {
  State state = start();
  const OptimizerHyper& hyper = setting.hyper;
  host::FusedOptions options = host::fused_options(hyper);
  options.draw = setting.draw;
  options.trust_ratio = trust_ratio;  // no other rule reads it
  const RuleTraits& rule = traits_of(hyper.rule);
  host::FusedState views{state.master};
  if (rule.keeps[StateSlot::exp_avg]) views.slots[StateSlot::exp_avg] = state.exp_avg;
  if (rule.keeps[StateSlot::exp_avg_sq]) views.slots[StateSlot::exp_avg_sq] = state.exp_avg_sq;
  if (hyper.amsgrad) views.slots[StateSlot::max_exp_avg_sq] = state.max_exp_avg_sq;
  if (hyper.momentum != 0) views.slots[StateSlot::momentum_buffer] = state.momentum_buffer;
  host::fused_update(exec, options, c, clip_coef, state.grad_sum, views,
                     {state.param.data(), setting.dtype, static_cast<std::int64_t>(elements)});
  return state;
}

/// Every sensible combination of rule options.
std::vector<OptimizerHyper> hypers() {
  std::vector<OptimizerHyper> all;
  for (const RuleTraits& rule : update_rules) {
    for (int bits = 0; bits < 32; ++bits) {
      OptimizerHyper hyper;
      hyper.rule = rule.rule;
      hyper.lr = 0.05;
      hyper.weight_decay = (bits & 1) != 0 ? 0.1 : 0.0;
      hyper.maximize = (bits & 2) != 0;
      if ((bits & 4) != 0) hyper.clip_value = 0.02;  // about half of the elements
      hyper.amsgrad = rule.amsgrad() && (bits & 8) != 0;
      if (rule.momentum() && (bits & 8) != 0) hyper.momentum = 0.9;
      if (hyper.momentum != 0 && (bits & 16) != 0) hyper.nesterov = true;
      if ((bits & 16) != 0 && !hyper.nesterov) continue;
      if (!rule.amsgrad() && !rule.momentum() && (bits & 8) != 0) continue;
      all.push_back(hyper);
    }
  }
  return all;
}

void check(const Exec& exec, const Setting& setting) {
  const StepScalars c = host::step_scalars(setting.hyper, setting.t, 4, 3);
  const State want = phases(exec, setting, c);
  CHECK(want.master != start().master);
  CHECK(fused(exec, setting, c) == want);  // there is no NaN in this data
}

}  // namespace

TEST_CASE("fused: the bits of the phases, every rule and option") {
  for (const OptimizerHyper& hyper : hypers()) {
    CAPTURE(static_cast<int>(hyper.rule));
    CAPTURE(hyper.amsgrad);
    CAPTURE(hyper.maximize);
    CAPTURE(hyper.momentum);
    CAPTURE(hyper.nesterov);
    CAPTURE(hyper.clip_value.has_value());
    for (const std::int64_t t : {1, 3}) {
      for (const Isa isa : host::supported_isas()) check({1, isa}, {hyper, DType::bf16, {}, t});
    }
  }
}

TEST_CASE("fused: every parameter type, and stochastic rounding by global index") {
  for (const Isa isa : host::supported_isas()) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
      check({2, isa}, {{}, dtype, {}});
    for (const std::uint64_t first : {0ULL, 1024ULL, 77ULL}) {
      check({2, isa}, {{}, DType::bf16, RoundingDraw{5, 3, first}});
    }
  }
}

TEST_CASE("fused: streamed parameters are the same bits, from any place in the shard") {
  OptimizerHyper still;  // a step that moves no weight: the cast sees ties, infinities and NaN
  still.lr = still.weight_decay = 0;
  const StepScalars c = host::step_scalars(still, 3, 4, 3);
  State special = start();
  for (std::size_t i = 0; i < elements; i += 3) {
    constexpr std::uint32_t bits[] = {0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000,
                                      0xFF800001, 0x7FC00000, 0x80008000};
    special.master[i] = std::bit_cast<float>(bits[i / 3 % std::size(bits)]);
  }
  for (const Isa isa : host::supported_isas()) {
    for (const std::size_t begin : {0U, 1U, 32U, 1024U}) {
      for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
        std::vector<State> results;
        for (const bool stream : {false, true}) {
          State state = special;
          host::FusedOptions options = host::fused_options(still);
          options.stream = stream;
          const auto from = [&](std::vector<float>& values) {
            return Span<float>(values).subspan(begin);
          };
          const auto width = static_cast<std::size_t>(num_bytes(dtype));
          host::fused_update({2, isa}, options, c, clip_coef, from(state.grad_sum),
                             {from(state.master), {from(state.exp_avg), from(state.exp_avg_sq)}},
                             {state.param.data() + begin * width, dtype,
                              static_cast<std::int64_t>(elements - begin)});
          results.push_back(state);
        }
        CHECK(results[0].param == results[1].param);
        CHECK(results[0].param != special.param);
      }
    }
  }
  CHECK(host::streams_past_caches(std::int64_t{16} << 20));
  CHECK_FALSE(host::streams_past_caches((std::int64_t{16} << 20) - 1));
}

TEST_CASE("fused: the norm and found_inf of the phases, without touching the gradient sum") {
  for (const Isa isa : host::supported_isas()) {
    const Exec exec{2, isa};
    State state = start();
    std::vector<float> grad(elements);
    for (const float special : {1.0F, std::numeric_limits<float>::infinity(), 0x1.8p127F}) {
      state.grad_sum[elements - 2] = special;
      const float inv_scale = special == 1.0F ? 0.3F : 1.5F;
      const bool found = host::unscale(exec, inv_scale, state.grad_sum, grad);
      CHECK(found == (special != 1.0F));
      CHECK(host::fused_finite(exec, inv_scale, state.grad_sum) == found);
      NormLimbs want, got;
      host::grad_norm_accumulate(exec, grad, want);
      CHECK(host::fused_finite_and_norm(exec, inv_scale, state.grad_sum, got) == found);
      host::grad_norm_normalise(want);
      host::grad_norm_normalise(got);
      CHECK(got == want);
    }
  }
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

TEST_CASE("fused: a gradient in a 16-bit type equals its fp32 values") {
  for (const Exec& exec : tests::every_exec()) {
    for (const float last : {1.0F, std::numeric_limits<float>::infinity()}) {
      check_leaf<bf16, host::cast_to_bf16, host::widen_bf16>(exec, DType::bf16, last);
      check_leaf<fp16, host::cast_to_fp16, host::widen_fp16>(exec, DType::fp16, last);
    }
  }
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
