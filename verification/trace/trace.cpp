#include "verification/trace/trace.hpp"

#include <cstring>
#include <functional>
#include <limits>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "common/comm/threads.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/trace/timed_communicator.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint64_t trace_seed = 2026;
constexpr std::uint32_t master_stream = 1;
constexpr std::uint32_t first_leaf_stream = 16;  // of micro-batch 0

void check(const TraceSettings& settings) {
  const auto require = [](bool ok, const std::string& problem, const std::string& why,
                          const std::string& remedy) {
    ZP_CHECK(ok, ErrorCode::config, problem, why, remedy);
  };
  require(settings.stage >= 0 && settings.stage <= 3, "stage is " + std::to_string(settings.stage),
          "ZeRO has stages 0 to 3", "use one of these");
  require(settings.world_size >= 1 && settings.world_size <= most_traced_ranks,
          "a trace of " + std::to_string(settings.world_size) + " ranks cannot be made",
          "every value of every rank is printed", "use 1 to " + std::to_string(most_traced_ranks));
  require(settings.micro_batches >= 1 && settings.micro_batches <= most_traced_micro_batches,
          "a trace of " + std::to_string(settings.micro_batches) + " micro-batches cannot be made",
          "every leaf is printed", "use 1 to " + std::to_string(most_traced_micro_batches));
}

/// The leaves of a TracedModel.
class TracedGrads final : public GradSource {
 public:
  explicit TracedGrads(const TracedModel& model) : model_(model) {}
  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    values_ = model_.leaves()[static_cast<std::size_t>(micro_batch)];
    return {values_.data(), DType::fp32, numel(Span<const float>(values_))};
  }

 private:
  const TracedModel& model_;
  std::vector<float> values_;
};

TracedBuffer copy_of(Phase phase, const ExposedBuffer& buffer) {
  TracedBuffer copy{phase, buffer.id, buffer.view.dtype, buffer.ranges, {}};
  copy.bytes.resize(static_cast<std::size_t>(buffer.view.num_bytes()));
  if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), buffer.view.data, copy.bytes.size());
  return copy;
}

/// Keeps a copy of everything it sees.
class CopyingTap final : public StepTap {
 public:
  explicit CopyingTap(std::vector<TracedBuffer>& into) : into_(into) {}
  void observe(Phase phase, const ExposedBuffer& buffer) override { into_.push_back(copy_of(phase, buffer)); }

 private:
  std::vector<TracedBuffer>& into_;
};

/// DistributedOptimizer::step, with the time of every phase.
void timed_step(DistributedOptimizer& optimizer, GradSource& leaves, const TraceClock& clock,
                TracedRank& rank) {
  CopyingTap tap(rank.buffers);
  for (const Phase phase : all_phases) {
    if (optimizer.skipped() && skipped_on_overflow(phase)) continue;
    const std::int64_t begin = clock.now_ns();
    optimizer.run_phase(phase, leaves);
    rank.phases.push_back({std::string(name(phase)), begin, clock.now_ns()});
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) tap.observe(phase, buffer);
  }
  for (const ExposedBuffer& buffer : optimizer.storage()) rank.held.push_back(copy_of(Phase::gather, buffer));
}

using Make = std::function<std::unique_ptr<DistributedOptimizer>(const OptimizerSetup&)>;

std::vector<TracedRank> run_side(const StepTrace& trace, const Make& make) {
  const TraceClock clock;  // of its own: both sides begin at 0
  std::vector<TracedRank> ranks(static_cast<std::size_t>(trace.settings.world_size));
  ThreadWorld world(trace.settings.world_size);
  run_ranks(world, [&](Communicator& comm) {
    TracedRank& mine = ranks[static_cast<std::size_t>(comm.rank())];
    TimedCommunicator timed(world.communicator(comm.rank()), clock);
    OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
    setup.comm = &timed;
    const std::unique_ptr<DistributedOptimizer> optimizer = make(setup);
    optimizer->load_state(trace.model.initial_state());
    timed.take_spans();
    TracedGrads leaves(trace.model);
    timed_step(*optimizer, leaves, clock, mine);
    mine.collectives = timed.take_spans();
  });
  return ranks;
}

}  // namespace

std::uint64_t TracedBuffer::bits(std::int64_t element) const {
  std::uint64_t value = 0;
  const auto width = static_cast<std::size_t>(num_bytes(dtype));
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(element) * width, width);
  return value;
}

TracedModel::TracedModel(std::int64_t micro_batches)
    : layout_({{"weight", {2, 4}}, {"bias", {3}}, {"gain", {5}}}) {
  const auto numel = static_cast<std::size_t>(layout_.padded_numel());
  const std::vector<float> nothing(numel, std::numeric_limits<float>::quiet_NaN());
  master_ = zeros_ = nothing;
  leaves_.assign(static_cast<std::size_t>(micro_batches), nothing);
  for (const Piece& piece : layout_.pieces({{0, layout_.padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      const auto index = static_cast<std::size_t>(i);
      master_[index] = Philox(trace_seed, master_stream).bell(index) * 0.5F;
      zeros_[index] = 0;
      for (std::size_t j = 0; j < leaves_.size(); ++j) {
        leaves_[j][index] = Philox(trace_seed, first_leaf_stream + static_cast<std::uint32_t>(j)).bell(index);
      }
    }
  }
}

FullState TracedModel::initial_state() const {
  FullState state;
  state.master = master_;
  state.exp_avg = state.exp_avg_sq = state.max_exp_avg_sq = state.momentum_buffer = zeros_;
  return state;
}

OptimizerSetup traced_setup(const TraceSettings& settings, const TracedModel& model, const ShardMap& shards) {
  OptimizerSetup setup;
  setup.windows = Windows::off;  // a trace shows what ranks tell each other
  setup.layout = &model.layout();
  setup.shards = &shards;
  setup.stage = settings.stage;
  setup.micro_batches = settings.micro_batches;
  setup.hyper.rule = settings.rule;
  setup.hyper.momentum = traits_of(settings.rule).momentum_buffer ? 0.9 : 0;
  return setup;
}

PredictedStep StepTrace::shape(int rank) const {
  PredictedStep shape;
  shape.stage = settings.stage;
  shape.world_size = settings.world_size;
  shape.rank = rank;
  shape.micro_batches = settings.micro_batches;
  return shape;
}

StepTrace trace_step(const TraceSettings& settings) {
  check(settings);
  TracedModel model(settings.micro_batches);
  const std::int64_t padded_numel = model.layout().padded_numel();
  StepTrace trace{
      settings, std::move(model), ShardMap(padded_numel, settings.world_size, padded_numel), DType::bf16, {},
      {}};
  trace.reference = run_side(trace, reference::make_distributed_optimizer);
  trace.production = run_side(trace, candidate_factory(Twin::host));
  return trace;
}

}  // namespace zeroproof::verification
