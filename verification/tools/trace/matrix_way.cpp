#include "verification/tools/trace/matrix_way.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "common/layout/matrix_owners.hpp"
#include "verification/cases/step_scalar_names.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/trace/sections.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace zeroproof::verification {
namespace {

/// As the step left it; null if it did not.
const TracedBuffer* buffer_of(const TracedStep& step, BufferId id) {
  const auto found = std::ranges::find(step.buffers, id, &TracedBuffer::id);
  return found == step.buffers.end() ? nullptr : &*found;
}

float scalar(const TracedBuffer& scalars, std::string_view name) {
  const auto at = std::ranges::find(step_scalar_names, name) - step_scalar_names.begin();
  return std::bit_cast<float>(static_cast<std::uint32_t>(scalars.bits(at)));
}

/// The direction of an element (R28); exp_avg is that of after the step.
float direction_of(const TracedBuffer& scalars, bool nesterov, float grad, float exp_avg) {
  if (!nesterov) return exp_avg;
  const float own = scalar(scalars, "one_minus_dampening") * grad;
  const float average = scalar(scalars, "momentum") * exp_avg;
  return own + average;
}

/// Elements by global index, of the first rank that has each.
std::map<std::int64_t, MatrixWay::Element> elements_by_index(const StepTrace& trace,
                                                             std::size_t step) {
  const bool nesterov = traced_setup(trace.settings, trace.model, trace.shards).hyper.nesterov;
  std::map<std::int64_t, MatrixWay::Element> all;
  for (std::size_t rank = 0; rank < trace.shown().size(); ++rank) {
    const TracedStep& mine = trace.shown()[rank].steps[step];
    const TracedBuffer *const orthogonal = buffer_of(mine, BufferId::orthogonal),
                              *const grad = buffer_of(mine, BufferId::grad),
                              *const exp_avg = buffer_of(mine, BufferId::exp_avg),
                              *const scalars = buffer_of(mine, BufferId::step_scalars);
    if (orthogonal == nullptr || grad == nullptr || exp_avg == nullptr || scalars == nullptr)
      continue;
    std::int64_t local = 0;
    for (const FlatRange& range : orthogonal->ranges) {
      for (std::int64_t i = range.begin; i < range.end; ++i, ++local) {
        const auto at = static_cast<std::size_t>(local);
        all.insert({i,
                    {0, static_cast<int>(rank),
                     direction_of(*scalars, nesterov, grad->floats()[at], exp_avg->floats()[at]),
                     orthogonal->floats()[at]}});
      }
    }
  }
  return all;
}

/// The rank of every matrix, if one computes it; in stage 0 and with MatrixOwners::every none does alone.
std::vector<int> matrix_owners_of(const StepTrace& trace, const OptimizerSetup& setup) {
  if (trace.settings.stage == 0 || setup.matrix_owners == MatrixOwners::every) return {};
  std::vector<MatrixShape> shapes;
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    const std::vector<std::int64_t>& shape = trace.model.layout().tensors()[t].shape;
    if (setup.matrix_tensors[t].is_matrix) shapes.push_back({shape[0], shape[1]});
  }
  return owners_of_matrices(setup.matrix_owners, shapes, trace.settings.world_size);
}

std::vector<int> computing_ranks_of(const StepTrace& trace, const TensorSlot& tensor) {
  std::vector<int> ranks(static_cast<std::size_t>(trace.settings.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (trace.settings.stage == 0) return ranks;
  std::erase_if(ranks, [&](int rank) {
    return std::ranges::none_of(trace.shards.shard(rank), [&](const FlatRange& range) {
      return range.begin < tensor.begin + tensor.numel && tensor.begin < range.end;
    });
  });
  return ranks;
}

std::string fp32_text(float value) {
  return shown_value(std::bit_cast<std::uint32_t>(value), DType::fp32);
}

std::string fp32_bits_text(float value) {
  return bits_text(std::bit_cast<std::uint32_t>(value), DType::fp32);
}

}  // namespace

std::vector<MatrixWay> matrix_ways(const StepTrace& trace, std::size_t step) {
  std::vector<MatrixWay> ways;
  const OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
  if (setup.matrix_tensors.empty() || trace.shown().front().steps[step].skipped) return ways;
  const std::map<std::int64_t, MatrixWay::Element> all = elements_by_index(trace, step);
  const std::vector<std::int64_t> elements = elements_of(trace.model.layout());
  const std::vector<int> owners = matrix_owners_of(trace, setup);
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    if (!setup.matrix_tensors[t].is_matrix) continue;
    const TensorSlot& tensor = trace.model.layout().tensors()[t];
    MatrixWay way{static_cast<std::int64_t>(t), {}, {}};
    way.computed_by =
        owners.empty() ? computing_ranks_of(trace, tensor) : std::vector<int>{owners[ways.size()]};
    for (std::int64_t i = tensor.begin; i < tensor.begin + tensor.numel; ++i) {
      const auto found = all.find(i);
      if (found == all.end()) continue;
      way.elements.push_back(found->second);
      way.elements.back().parameter = std::ranges::find(elements, i) - elements.begin();
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

std::string matrices_text(const StepTrace& trace, std::size_t step) {
  const std::vector<std::string> names = element_names(trace.model.layout());
  std::string out;
  for (const MatrixWay& way : matrix_ways(trace, step)) {
    const TensorSlot& tensor = trace.model.layout().tensors()[way.tensor];
    TraceColumn labels{"", {}}, owner{"of", {}}, direction{"e", {}}, orthogonal{"orthogonal", {}};
    for (const MatrixWay::Element& element : way.elements) {
      labels.cells.push_back(names[element.parameter]);
      owner.cells.push_back("rank " + std::to_string(element.rank));
      direction.cells.push_back(fp32_text(element.direction));
      orthogonal.cells.push_back(fp32_text(element.orthogonal));
    }
    out += fmt::format("\n  {}, {} x {}: orthogonalised on {}\n", tensor.name, tensor.shape[0],
                       tensor.shape[1], ranks_text(way.computed_by)) +
           table(labels, {owner, direction, orthogonal});
  }
  return out;
}

Json matrices_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  if (phase != Phase::update) return all;
  for (const MatrixWay& way : matrix_ways(trace, step)) {
    Json parameters = Json::array(), ranks = Json::array(), direction = Json::array(),
         orthogonal = Json::array();
    for (const MatrixWay::Element& element : way.elements) {
      parameters.push_back(element.parameter);
      ranks.push_back(element.rank);
      direction.push_back(fp32_bits_text(element.direction));
      orthogonal.push_back(fp32_bits_text(element.orthogonal));
    }
    all.push_back({{"tensor", way.tensor},
                   {"computed_by", Json(way.computed_by)},
                   {"parameters", parameters},
                   {"ranks", ranks},
                   {"direction", direction},
                   {"orthogonal", orthogonal}});
  }
  return all;
}

}  // namespace zeroproof::verification
