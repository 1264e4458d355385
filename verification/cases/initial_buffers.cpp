#include "verification/cases/initial_buffers.hpp"

#include <limits>

#include "common/base/philox.hpp"

namespace zeroproof::verification {
namespace {

void fill(InitialBuffers::Values& values, const FlatLayout& layout, const RunConfig& config) {
  const bool seeded = config.initial_state == InitialState::seeded;
  const Philox first(config.seed, 2);
  const Philox second(config.seed, 3);
  const Philox third(config.seed, 4);
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      const auto index = static_cast<std::size_t>(i);
      values.slots[StateSlot::exp_avg][index] = seeded ? first.bell(index) * 1e-3F : 0.0F;
      values.slots[StateSlot::exp_avg_sq][index] = seeded ? second.uniform(index) * 1e-5F : 0.0F;
      // Above some of the later second moments and below others.
      values.slots[StateSlot::max_exp_avg_sq][index] = seeded ? third.uniform(index) * 1e-4F : 0.0F;
      values.slots[StateSlot::momentum_buffer][index] = seeded ? third.bell(index) * 1e-3F : 0.0F;
    }
  }
}

}  // namespace

const InitialBuffers::Values& InitialBuffers::get(
    const FlatLayout& layout, const RunConfig& config,
    const std::function<void(std::vector<float>& master)>& init) {
  std::call_once(made_, [&] {
    const auto numel = static_cast<std::size_t>(layout.padded_numel());
    Values values;
    values.master.assign(numel, std::numeric_limits<float>::quiet_NaN());
    for (std::vector<float>& slot : values.slots) slot = values.master;
    init(values.master);
    fill(values, layout, config);
    values_ = std::move(values);
  });
  return values_;
}

}  // namespace zeroproof::verification
