// Passes configurations and states of the plug-in interface, one by one, to LossScalerUpdateFn.

#include "plugin_wrapper.hpp"

namespace zeroproof::wrapper {
namespace {

LossScalerConfig config_of(const std::uint32_t* words) {
  const auto word = [&](int k) { return static_cast<std::int32_t>(words[k]); };
  return {static_cast<LossScalerKind>(words[0]),
          word(1),
          word(2),
          word(3),
          word(4),
          word(5),
          word(6),
          word(7),
          static_cast<HysteresisRefill>(words[8])};
}

LossScalerState state_of(const std::uint32_t* words) {
  return {static_cast<std::int32_t>(words[0]), static_cast<std::int32_t>(words[1]),
          static_cast<std::int32_t>(words[2])};
}

std::int32_t run(const zeroproof_call* call) {
  return whole(call, [&] {
    for (std::size_t i = 0; i < size(call); ++i) {
      const LossScalerState before = state_of(data<std::uint32_t>(call, 1) + 3 * i);
      LossScalerState made = before;
      const bool found_inf = data<std::uint32_t>(call, 2)[i] != 0;
      const std::uint32_t refused = refuses([&] {
        made = mine::loss_scaler_update(config_of(data<std::uint32_t>(call, 0) + 9 * i), before,
                                        found_inf);
      });
      data<std::uint32_t>(call, 4)[i] = refused;
      const LossScalerState& after = refused != 0 ? before : made;
      std::uint32_t* words = data<std::uint32_t>(call, 3) + 3 * i;
      words[0] = static_cast<std::uint32_t>(after.log2_scale);
      words[1] = static_cast<std::uint32_t>(after.growth_tracker);
      words[2] = static_cast<std::uint32_t>(after.hysteresis_left);
    }
  });
}

}  // namespace
}  // namespace zeroproof::wrapper

PUZZLE_PLUGIN("loss_scaler_update", zeroproof::wrapper::run)
