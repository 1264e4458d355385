#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t config_words = 9;
constexpr std::size_t state_words = 3;

int as_int(std::uint32_t word) { return static_cast<int>(word); }

LossScalerConfig config_from(Span<const std::uint32_t> w) {
  LossScalerConfig config;
  config.kind = static_cast<LossScalerKind>(w[0]);
  config.log2_initial = as_int(w[1]);
  config.log2_growth = as_int(w[2]);
  config.log2_backoff = as_int(w[3]);
  config.log2_min = as_int(w[4]);
  config.log2_max = as_int(w[5]);
  config.growth_interval = as_int(w[6]);
  config.hysteresis = as_int(w[7]);
  config.refill = static_cast<HysteresisRefill>(w[8]);
  return config;
}

void put_state(const LossScalerState& state, Span<std::uint32_t> words) {
  words[0] = static_cast<std::uint32_t>(state.log2_scale);
  words[1] = static_cast<std::uint32_t>(state.growth_tracker);
  words[2] = static_cast<std::uint32_t>(state.hysteresis_left);
}

/// Small numbers, so that intervals end, limits are met and counters run out; one word in sixteen is illegal.
void draw_config(OpCall& call) {
  const Span<std::uint32_t> words = call.get<std::uint32_t>(0);
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock a = call.words(0, i, 0);
    const PhiloxBlock b = call.words(0, i, 1);
    const PhiloxBlock c = call.words(0, i, 2);
    const Span<std::uint32_t> w =
        words.subspan(static_cast<std::size_t>(i) * config_words, config_words);
    const auto from_one = [&](std::uint32_t word, std::uint32_t most) {
      return word % 16U == 0 && c[2] % 4U == 0 ? 0U : 1U + (word >> 4) % most;
    };
    w[0] = a[0] % 8U == 0 ? a[1] % 2U : 2U;  // mostly dynamic
    w[4] = (a[2] % 9U) - 4U;                 // log2_min from -4, modulo 2^32
    w[1] = w[4] + a[3] % 9U;
    w[5] = w[1] + b[0] % 5U - (b[0] % 64U == 0 ? 5U : 0U);  // sometimes below the initial scale
    w[2] = from_one(b[1], 3);
    w[3] = from_one(b[2], 8);
    w[6] = from_one(b[3], 5);
    w[7] = from_one(c[0], 3);
    w[8] = c[1] % 2U;
  }
}

void draw_update(OpCall& call) {
  draw_config(call);
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(1, i);
    const LossScalerConfig config = config_from(call.in<std::uint32_t>(0).subspan(
        static_cast<std::size_t>(i) * config_words, config_words));
    const Span<std::uint32_t> state =
        call.get<std::uint32_t>(1).subspan(static_cast<std::size_t>(i) * state_words, state_words);
    state[0] = static_cast<std::uint32_t>(config.log2_min) + w[0] % 13U;
    state[1] = w[1] % 7U;
    state[2] = w[2] % 4U;
    call.get<std::uint32_t>(2)[i] = w[3] % 2U;
  }
}

OpFunction run_init(LossScalerInitFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      LossScalerState state{-1, -1, -1};
      const auto config =
          config_from(call.in<std::uint32_t>(0).subspan(i * config_words, config_words));
      call.get<std::uint32_t>(2)[i] = refused([&] { state = implementation(config); });
      put_state(state, call.get<std::uint32_t>(1).subspan(i * state_words, state_words));
    }
  };
}

OpFunction run_update(LossScalerUpdateFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const auto words = call.in<std::uint32_t>(1).subspan(i * state_words, state_words);
      LossScalerState state{as_int(words[0]), as_int(words[1]), as_int(words[2])};
      const auto config =
          config_from(call.in<std::uint32_t>(0).subspan(i * config_words, config_words));
      const bool found_inf = call.in<std::uint32_t>(2)[i] != 0;
      call.get<std::uint32_t>(4)[i] =
          refused([&] { state = implementation(config, state, found_inf); });
      put_state(state, call.get<std::uint32_t>(3).subspan(i * state_words, state_words));
    }
  };
}

}  // namespace

std::vector<Op> loss_scaler_ops() {
  Op init;
  init.name = "loss_scaler_init";
  init.contract = "loss_scaler.hpp";
  init.type = "LossScalerInitFn";
  init.exactness = Exactness::integer;
  init.phases = {Phase::unscale};
  init.operands = {per_element(input("config", Content::given, DType::u32), config_words),
                   per_element(output("state", DType::u32), state_words),
                   output("refused", DType::u32)};
  init.fills = {Fill::sweep};
  init.generate = draw_config;
  init.one_result = "it computes with integers";
  init.reference = run_init(reference::loss_scaler_init);
  init.host = run_init(cuda::host::loss_scaler_init);

  Op update = init;
  update.name = "loss_scaler_update";
  update.type = "LossScalerUpdateFn";
  update.operands = {per_element(input("config", Content::given, DType::u32), config_words),
                     per_element(input("before", Content::given, DType::u32), state_words),
                     input("found_inf", Content::given, DType::u32),
                     per_element(output("after", DType::u32), state_words),
                     output("refused", DType::u32)};
  update.generate = draw_update;
  update.reference = run_update(reference::loss_scaler_update);
  update.host = run_update(cuda::host::loss_scaler_update);
  update.device = run_update(cuda::device::loss_scaler_update);
  return {init, update};
}

}  // namespace zeroproof::verification
