#include "verification/tools/train/job_dump.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/model/recorded.hpp"
#include "verification/tools/train/dump/dump.hpp"

namespace zeroproof::verification {
namespace {

/// The exposed buffer from which a buffer of the dump is read on every rank.
BufferId exposed_as(BufferId id) {
  if (id == BufferId::param_full) return BufferId::param_shard;
  return id == BufferId::param_columns ? BufferId::column_shard : id;
}

/// A buffer of the dump, whole on rank 0: its elements are gathered; values of blocks are equal on
/// every rank.
struct Whole {
  std::size_t buffer;  ///< into DumpPlan::buffers()
  GuardedBuffer values;
};

GuardedBuffer copy_of(const TensorView& view) {
  GuardedBuffer copy(view.numel, view.dtype);
  if (view.numel > 0)
    std::memcpy(copy.data(), view.data, static_cast<std::size_t>(view.num_bytes()));
  return copy;
}

/// Of elements put together from all ranks, and of their state's blocks; collective. Numbers of
/// blocks are the same on every rank.
GuardedBuffer whole_of(const DumpBuffer& wanted, const ExposedBuffer& exposed, TrainingRank& rank) {
  const TensorView& view = exposed.view;
  if (wanted.blocks == nullptr) {
    if (!is_state_scale(wanted.id)) return rank.collector().collect(view);
    const std::vector<float> scales = rank.collector().collect_scales(exposed);
    return copy_of(
        {const_cast<float*>(scales.data()), DType::fp32, static_cast<std::int64_t>(scales.size())});
  }
  return copy_of(view);
}

std::vector<Whole> collected(const DumpPlan& plan, TrainingRank& rank) {
  std::vector<ExposedBuffer> all = rank.optimizer().exposed(Phase::update);
  for (ExposedBuffer& buffer : rank.optimizer().exposed(Phase::cast))
    all.push_back(std::move(buffer));
  std::vector<Whole> buffers;
  for (std::size_t i = 0; i < plan.buffers().size(); ++i) {
    const DumpBuffer& wanted = plan.buffers()[i];
    const auto found = std::ranges::find(all, exposed_as(wanted.id), &ExposedBuffer::id);
    // Missing: a copy by columns that is computed from param.
    if (wanted.per_parameter && found != all.end())
      buffers.push_back({i, whole_of(wanted, *found, rank)});
  }
  return buffers;
}

}  // namespace

void write_job_dump(const JobSettings& settings, TrainingRank& rank, std::int64_t step,
                    Communicator& world) {
  const Experiment& experiment = settings.experiment;
  const DumpPlan plan(experiment, DumpPlan::Content::codes);
  const std::vector<Whole> buffers = collected(plan, rank);
  together(world, [&] {
    if (world.rank() != 0) return;
    std::vector<std::pair<DumpTensor, const Whole*>> tensors;
    std::vector<SafeTensorSpec> specs;
    for (const DumpTensor& tensor : plan.tensors({step})) {
      const auto whole = std::ranges::find(buffers, tensor.buffer, &Whole::buffer);
      if (whole == buffers.end()) continue;
      tensors.emplace_back(tensor, &*whole);
      specs.push_back(tensor.spec);
      specs.back().dtype = safe_dtype(whole->values.view().dtype);  // a master may have fewer bits
    }
    SafetensorsWriter writer(settings.dump, specs, dump_metadata(experiment, settings.spec.id()),
                             workload::recording_limits());
    for (const auto& [tensor, whole] : tensors)
      writer.write(tensor.spec.name, plan.part_of(tensor, whole->values.view()));
    writer.finish();
  });
}

}  // namespace zeroproof::verification
