// The source of a project that uses the library: one optimizer step of the reference and of
// production, and a comparison of every buffer.

#include <zeroproof/common/comm/self.hpp>
#include <zeroproof/cuda/distributed_optimizer.hpp>
#include <zeroproof/reference/distributed_optimizer.hpp>
#include <zeroproof/verification/compare/compare.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

/// Gradients that are a formula of the element.
class FormulaGrads final : public zeroproof::GradSource {
 public:
  explicit FormulaGrads(std::int64_t numel) : values_(static_cast<std::size_t>(numel)) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = 0.001F * static_cast<float>(i % 97) - 0.04F;
  }
  zeroproof::TensorView micro_batch_grad(std::int64_t /*micro_batch*/) override {
    return {values_.data(), zeroproof::DType::fp32, static_cast<std::int64_t>(values_.size())};
  }

 private:
  std::vector<float> values_;
};

/// Prints the first element of a phase that differs; returns how many elements were compared, -1 if any differs.
std::int64_t compare_phase(zeroproof::DistributedOptimizer& reference,
                           zeroproof::DistributedOptimizer& candidate, zeroproof::Phase phase) {
  const std::vector<zeroproof::ExposedBuffer> want = reference.exposed(phase);
  const std::vector<zeroproof::ExposedBuffer> got = candidate.exposed(phase);
  std::int64_t compared = 0;
  for (const zeroproof::ExposedBuffer& buffer : want) {
    for (const zeroproof::ExposedBuffer& other : got) {
      if (other.id != buffer.id) continue;
      const auto result =
          zeroproof::verification::compare(buffer.view, other.view, 0, buffer.view.numel);
      if (result.first) {
        const auto show = [&](std::uint64_t bits) {
          return zeroproof::verification::show_bits(buffer.view.dtype, bits);
        };
        std::printf("%s: %lld differ, first element %lld: %s, not %s\n",
                    std::string(name(buffer.id)).c_str(), static_cast<long long>(result.differing),
                    static_cast<long long>(result.first->index),
                    show(result.first->candidate_bits).c_str(),
                    show(result.first->reference_bits).c_str());
        return -1;
      }
      compared += result.compared;
    }
  }
  return compared;
}

}  // namespace

/// With an argument, production gets another learning rate: the comparison must then fail.
int main(int argc, char** /*argv*/) {
  const zeroproof::FlatLayout layout({{"weight", {37, 61}}, {"bias", {37}}});
  const zeroproof::ShardMap shards(layout.padded_numel(), 1, zeroproof::layout_alignment);
  const auto comm = zeroproof::make_self_communicator();
  zeroproof::OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = comm.get();
  setup.stage = 1;
  const auto reference = zeroproof::reference::make_distributed_optimizer(setup);
  if (argc > 1) setup.hyper.lr *= 2;
  const auto production = zeroproof::cuda::make_distributed_optimizer(setup);

  const auto numel = static_cast<std::size_t>(layout.padded_numel());
  const std::vector<float> master(numel, 0.5F);
  const std::vector<float> zeros(numel);
  zeroproof::FullState first;
  first.master = master;
  first.slots = {zeros, zeros};
  reference->load_state(first);
  production->load_state(first);

  FormulaGrads grads(layout.padded_numel());
  std::int64_t compared = 0;
  for (const zeroproof::Phase phase : zeroproof::all_phases) {
    reference->run_phase(phase, grads);
    production->run_phase(phase, grads);
    const std::int64_t of_phase = compare_phase(*reference, *production, phase);
    if (of_phase < 0) return 1;
    compared += of_phase;
  }
  std::printf("%lld elements of one step have the same bits\n", static_cast<long long>(compared));
  return compared > layout.numel() ? 0 : 1;
}
