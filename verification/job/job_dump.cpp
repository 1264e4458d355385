#include "verification/job/job_dump.hpp"

#include "common/base/error.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/io/safetensors_writer.hpp"
#include "verification/dump/dump.hpp"
#include "verification/workload/recorded.hpp"

namespace zeroproof::verification {
namespace {

bool is_dumped(Phase phase, BufferId id) {
  if (id == BufferId::param_shard) return phase == Phase::cast;
  return phase == Phase::update &&
         (id == BufferId::master || id == BufferId::exp_avg || id == BufferId::exp_avg_sq ||
          id == BufferId::max_exp_avg_sq || id == BufferId::momentum_buffer);
}

SafeDType file_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return SafeDType::bf16;
    case DType::fp16:
      return SafeDType::f16;
    default:
      return SafeDType::f32;
  }
}

struct Whole {
  std::string name;
  GuardedBuffer values;
};

}  // namespace

void write_job_dump(const JobSettings& settings, TrainingRank& rank, std::int64_t step, Communicator& world) {
  std::vector<Whole> buffers;
  for (const Phase phase : {Phase::update, Phase::cast}) {
    for (const ExposedBuffer& buffer : rank.optimizer().exposed(phase)) {
      if (!is_dumped(phase, buffer.id)) continue;
      const std::string name =
          buffer.id == BufferId::param_shard ? "param" : std::string(zeroproof::name(buffer.id));
      ZP_CHECK(num_bytes(buffer.view.dtype) > 1 &&
                   (buffer.id == BufferId::param_shard || buffer.view.dtype != DType::fp16),
               ErrorCode::unavailable, name + " is kept with scales", "a dump of a training has values",
               "export its checkpoint, which has them");
      buffers.push_back({name, rank.collector().collect(buffer.view)});
    }
  }
  together(world, [&] {
    if (world.rank() != 0) return;
    const Experiment& experiment = settings.experiment;
    std::vector<SafeTensorSpec> specs;
    for (const Whole& buffer : buffers) {
      for (const TensorSlot& slot : experiment.layout().tensors())
        specs.push_back(
            {dump_name(buffer.name, step, slot.name), file_type(buffer.values.view().dtype), slot.shape});
    }
    SafetensorsWriter writer(settings.dump, specs, dump_metadata(experiment, settings.spec.id()),
                             workload::recording_limits());
    for (const Whole& buffer : buffers) {
      const TensorView view = buffer.values.view();
      const auto* const bytes = static_cast<const std::byte*>(view.data);
      const std::int64_t width = num_bytes(view.dtype);
      for (const TensorSlot& slot : experiment.layout().tensors()) {
        writer.write(
            dump_name(buffer.name, step, slot.name),
            Span<const std::byte>(bytes + slot.begin * width, static_cast<std::size_t>(slot.numel * width)));
      }
    }
    writer.finish();
  });
}

}  // namespace zeroproof::verification
