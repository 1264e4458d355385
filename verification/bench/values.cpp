#include "verification/bench/values.hpp"

#include "common/base/philox.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Uniform in [low, high), one counter per four elements.
void fill_uniform(std::uint32_t stream, float low, float high, std::int64_t begin,
                  Span<float> out) {
  const float width = high - low;
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto counter = static_cast<std::uint32_t>((begin + i) / 4);
    const PhiloxBlock words = philox4x32({counter, 0, stream, 0}, 1);
    for (std::size_t k = 0; k < 4 && i + k < out.size(); ++k)
      out[i + k] = low + width * (static_cast<float>(words[k] >> 8) * 0x1p-24F);
  }
}

}  // namespace

void fill_grad(std::int64_t micro_batch, std::int64_t begin, Span<float> out) {
  fill_uniform(16 + micro_batch, -30.0F, 30.0F, begin, out);
}
void fill_master(std::int64_t begin, Span<float> out) { fill_uniform(2, -0.1F, 0.1F, begin, out); }
void fill_exp_avg(std::int64_t begin, Span<float> out) {
  fill_uniform(3, -0.01F, 0.01F, begin, out);
}
void fill_exp_avg_sq(std::int64_t begin, Span<float> out) {
  fill_uniform(4, 1e-6F, 1e-4F, begin, out);
}

OptimizerHyper step_hyper(bool clips) {
  OptimizerHyper hyper;
  if (!clips) hyper.max_norm.reset();
  return hyper;
}

OptimizerSetup step_setup(const FlatLayout& layout, const ShardMap& shards, Communicator& comm,
                          int stage) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = stage;
  setup.hyper = step_hyper(true);
  setup.scaler.kind = LossScalerKind::constant;
  setup.scaler.log2_initial = log2_loss_scale;
  return setup;
}

State::State(std::int64_t numel, WorkerTeam& team) : State(numel) {
  team.run(numel, [this](std::int64_t begin, std::int64_t end) { fill(begin, begin, end); });
}

State::State(std::int64_t begin, std::int64_t numel) : State(numel) { fill(begin, 0, numel); }

void State::fill(std::int64_t global_begin, std::int64_t begin, std::int64_t end) const {
  fill_master(global_begin, part(master, begin, end));
  fill_exp_avg(global_begin, part(exp_avg, begin, end));
  fill_exp_avg_sq(global_begin, part(exp_avg_sq, begin, end));
}

FullState State::full() const {
  FullState state;
  state.master = master.span();
  state.slots = {exp_avg.span(), exp_avg_sq.span()};
  state.applied_steps = steps_before;
  state.scaler.log2_scale = log2_loss_scale;
  return state;
}

}  // namespace zeroproof::verification::bench
