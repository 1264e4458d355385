#include "verification/tools/trace/trace.hpp"

#include <cstring>
#include <functional>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "common/step/matrix_tensors.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/tools/trace/timed_communicator.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::verification {
namespace {

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
  require(settings.steps >= 1 && settings.steps <= most_traced_steps,
          "a trace of " + std::to_string(settings.steps) + " steps cannot be made",
          "every step is printed", "use 1 to " + std::to_string(most_traced_steps));
  require(settings.overflow_step >= 0 && settings.overflow_step <= settings.steps,
          "the step that overflows is " + std::to_string(settings.overflow_step),
          "the steps of this trace are 1 to " + std::to_string(settings.steps), "name one of them");
  require(settings.log2_loss_scale >= 0 && settings.log2_loss_scale <= most_traced_log2_scale,
          "the loss scale is 2^" + std::to_string(settings.log2_loss_scale),
          "the loss scaler keeps it from 1 to 2^" + std::to_string(most_traced_log2_scale),
          "use a power of two in between");
  require(
      settings.matrix_owners == MatrixOwners::every || traits_of(settings.rule).matrices,
      "an owner of matrices was given with the rule " + std::string(traits_of(settings.rule).name),
      "only the rule muon has them", "leave --matrix-owners out, or use --rule muon");
  require(settings.bucket_numel >= 0 && settings.bucket_numel % layout_alignment == 0,
          "a bucket of " + std::to_string(settings.bucket_numel) + " elements cannot be made",
          "buckets are split at multiples of " + std::to_string(layout_alignment),
          "use a multiple, or 0 for one bucket");
}

TracedBuffer copy_of(Phase phase, const ExposedBuffer& buffer) {
  TracedBuffer copy{phase, buffer.id, buffer.view.dtype, buffer.ranges, {}};
  copy.bytes.resize(buffer.view.num_bytes());
  if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), buffer.view.data, copy.bytes.size());
  return copy;
}

template <class Words>
TracedBuffer words_of(BufferId id, DType dtype, const Words& words) {
  TracedBuffer copy{Phase::prepare, id, dtype, {}, std::vector<std::byte>(sizeof(words))};
  std::memcpy(copy.bytes.data(), &words, sizeof(words));
  return copy;
}

bool survives(BufferId id) {
  return is_state(id) || id == BufferId::param_shard || id == BufferId::param_full ||
         id == BufferId::param_scale || id == BufferId::param_scale_inv ||
         id == BufferId::amax_history;
}

/// Keeps the result of memory() whenever it changes.
class MemoryWatch {
 public:
  void look(const DistributedOptimizer& optimizer, Phase phase, const std::string& at, int place,
            std::vector<TracedMemory>& into) {
    const BytesByClass now = optimizer.memory().now;
    for (std::size_t c = 0; c < now.size(); ++c) {
      if (now[c] == last_[c]) continue;
      into.push_back({phase, at, static_cast<MemoryClass>(c), now[c], now[c] - last_[c], place});
    }
    last_ = now;
  }

 private:
  BytesByClass last_{};
};

using Make = std::function<std::unique_ptr<DistributedOptimizer>(const OptimizerSetup&)>;

/// One rank of one side.
class TracingRank {
 public:
  TracingRank(const StepTrace& trace, const Make& make, const TraceClock& clock,
              std::unique_ptr<Communicator> inner)
      : trace_(trace), clock_(clock), comm_(std::move(inner), clock, [this](const std::string& at) {
          if (at == "all_gather") sight(UnitSighting::Kind::all_gather);
          const int place = place_++;
          look(at);
          return place;
        }) {
    OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
    setup.comm = &comm_;
    optimizer_ = make(setup);
    optimizer_->load_state(trace.model.initial_state());
    comm_.take_spans();
  }

  TracedStep step(int number) {
    now_ = TracedStep{};
    place_ = 0;
    watching_ = true;  // memory for loading the state is one sum in the first step
    if (number == 1) look("loaded");
    const LossScalerState scaler = optimizer_->loss_scaler();
    now_.t = optimizer_->applied_steps() + 1;
    now_.log2_loss_scale = scaler.log2_scale;
    now_.before = {words_of(BufferId::applied_steps, DType::u64, optimizer_->applied_steps()),
                   words_of(BufferId::loss_scaler, DType::u32, scaler)};
    for (const ExposedBuffer& buffer : optimizer_->storage()) {
      if (survives(buffer.id)) now_.before.push_back(copy_of(Phase::prepare, buffer));
    }
    TracedGrads leaves(
        trace_.model, trace_.settings, number, scaler.log2_scale,
        [this](std::int64_t micro_batch) {
          sight(UnitSighting::Kind::leaf);
          if (trace_.settings.stage == 3) return;
          now_.leaves.push_back({micro_batch, place_++});
          look("leaf " + std::to_string(micro_batch));
        },
        [this](const TracedVisit& visit) {
          sight(UnitSighting::Kind::visit, visit);
          look(std::string(verification::name(visit.event)) + " " +
               TracedModel::unit_name(static_cast<std::size_t>(visit.unit)));
          if (visit.event == TracedVisit::Event::backward && visit.unit == 0)  // the last one
            now_.leaves.push_back({visit.micro_batch, place_++});
        });
    run(leaves);
    for (const ExposedBuffer& buffer : optimizer_->storage()) {
      now_.held.push_back(copy_of(Phase::gather, buffer));
    }
    now_.collectives = comm_.take_spans();
    return std::move(now_);
  }

 private:
  void look(const std::string& at) {
    if (watching_) memory_.look(*optimizer_, phase_, at, place_++, now_.memory);
  }

  void sight(UnitSighting::Kind kind, const TracedVisit& visit = {}) {
    if (trace_.settings.stage != 3 || phase_ != Phase::reduce || !watching_) return;
    const auto bytes = optimizer_->memory().now[static_cast<std::size_t>(MemoryClass::param_full)];
    place_ += 2;  // of a unit released before, and of one gathered for it
    now_.sightings.push_back({kind, bytes, visit, place_++});
  }

  /// DistributedOptimizer::step, with the time of every phase.
  void run(GradSource& leaves) {
    for (const Phase phase : all_phases) {
      phase_ = phase;
      comm_.set_phase(phase);
      if (optimizer_->skipped() && skipped_on_overflow(phase)) continue;
      sight(UnitSighting::Kind::begin);
      const std::int64_t begin = clock_.now_ns();
      optimizer_->run_phase(phase, leaves);
      sight(UnitSighting::Kind::end);
      now_.phases.push_back({std::string(name(phase)), begin, clock_.now_ns(), phase});
      look("end of the phase");
      for (const ExposedBuffer& buffer : optimizer_->exposed(phase)) {
        now_.buffers.push_back(copy_of(phase, buffer));
      }
    }
    now_.skipped = optimizer_->skipped();
  }

  const StepTrace& trace_;
  const TraceClock& clock_;
  TimedCommunicator comm_;
  Phase phase_ = Phase::prepare;
  int place_ = 0;
  MemoryWatch memory_;
  bool watching_ = false;
  TracedStep now_;
  std::unique_ptr<DistributedOptimizer> optimizer_;  // before comm_ in the order of destruction
};

std::vector<TracedRank> run_side(const StepTrace& trace, const Make& make) {
  const TraceClock clock;  // separate: both sides begin at 0
  std::vector<TracedRank> ranks(trace.settings.world_size);
  ThreadWorld world(trace.settings.world_size);
  run_ranks(world, [&](Communicator& comm) {
    TracingRank rank(trace, make, clock, world.communicator(comm.rank()));
    TracedRank& mine = ranks[comm.rank()];
    for (int step = 1; step <= trace.settings.steps; ++step) mine.steps.push_back(rank.step(step));
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

Span<const float> TracedBuffer::floats() const {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

OptimizerSetup traced_setup(const TraceSettings& settings, const TracedModel& model,
                            const ShardMap& shards) {
  OptimizerSetup setup;
  setup.windows = Windows::off;  // a trace shows the messages between ranks
  setup.layout = &model.layout();
  setup.shards = &shards;
  setup.stage = settings.stage;
  setup.micro_batches = settings.micro_batches;
  setup.param_dtype = settings.param_dtype;
  setup.scaling = settings.scaling;
  setup.grad_dtype = settings.grad_dtype();
  setup.scaler.kind = LossScalerKind::dynamic;
  setup.scaler.log2_initial = settings.log2_loss_scale;
  setup.scaler.log2_max = most_traced_log2_scale;
  setup.scaler.growth_interval = 2;  // so that the trace contains a growth
  setup.hyper.rule = settings.rule;
  if (!settings.clip_group.empty()) {
    setup.clip_groups =
        make_clip_groups({{settings.clip_group, {settings.clip_group}, false, {}}}, model.layout());
  }
  const RuleTraits& traits = traits_of(settings.rule);
  setup.hyper.momentum = traits.momentum() || traits.matrices ? 0.9 : 0;
  if (!traits.matrices) return setup;
  setup.hyper.nesterov = true;
  setup.matrix_tensors = make_matrix_tensors({}, {}, model.layout());
  setup.matrix_owners = settings.matrix_owners;
  return setup;
}

std::vector<std::vector<float>> StepTrace::leaves(std::size_t step) const {
  std::vector<std::vector<float>> all;
  const int log2_scale = shown().front().steps[step].log2_loss_scale;
  for (std::int64_t j = 0; j < settings.micro_batches; ++j) {
    all.push_back(model.leaf(static_cast<int>(step) + 1, j, log2_scale));
  }
  return all;
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
  TracedModel model(settings);
  const std::int64_t padded_numel = model.layout().padded_numel();
  const std::int64_t bucket_numel =
      settings.bucket_numel == 0 ? padded_numel : settings.bucket_numel;
  StepTrace trace{settings,
                  std::move(model),
                  ShardMap(padded_numel, settings.world_size, bucket_numel),
                  {},
                  {}};
  trace.reference = run_side(trace, reference::make_distributed_optimizer);
  trace.production = run_side(trace, candidate_factory(Implementation::host, settings.fault));
  find_visits(trace);
  return trace;
}

}  // namespace zeroproof::verification
