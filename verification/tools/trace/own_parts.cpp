// A rank's own part of a reduction of integers. Recomputed from its own gradient, as the step shows
// sums.

#include <bit>
#include <cmath>
#include <cstring>

#include "reference/norm_form.hpp"
#include "reference/operations.hpp"
#include "verification/tools/trace/json_sections.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace zeroproof::verification {
namespace {

const TracedBuffer* find(const TracedStep& step, BufferId id) {
  for (const TracedBuffer& buffer : step.buffers) {
    if (buffer.id == id) return &buffer;
  }
  return nullptr;
}

Span<const float> values_of(const TracedBuffer& buffer, const Piece& piece) {
  return buffer.floats().subspan(piece.local_begin, piece.numel);
}

template <class Words>
TracedBuffer words_buffer(BufferId id, DType dtype, const Words* words, std::size_t count) {
  TracedBuffer buffer{Phase::norm, id, dtype, {}, std::vector<std::byte>(count * sizeof(Words))};
  std::memcpy(buffer.bytes.data(), words, buffer.bytes.size());
  return buffer;
}

TracedBuffer own_found_inf(const StepTrace& trace, const TracedBuffer& grad) {
  std::uint32_t found = 0;
  for (const Piece& piece : trace.model.layout().pieces(grad.ranges)) {
    for (const float value : values_of(grad, piece)) found |= std::isfinite(value) ? 0U : 1U;
  }
  return words_buffer(BufferId::found_inf, DType::u32, &found, 1);
}

TracedBuffer own_limbs(const StepTrace& trace, const TracedBuffer& grad) {
  const OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
  reference::PartialNorms norms(setup.clip_groups.count());
  for (const Piece& piece : trace.model.layout().pieces(grad.ranges)) {
    norms.accumulate(NormForm::chunk1024,
                     static_cast<std::size_t>(setup.clip_groups.of(piece.tensor)),
                     values_of(grad, piece));
  }
  norms.normalise();
  return words_buffer(BufferId::norm_limbs, DType::u64, norms.limbs.data(), norms.limbs.size());
}

}  // namespace

Json reductions_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  const bool flags = phase == Phase::unscale;
  if (!flags && (phase != Phase::norm || trace.settings.stage == 0)) return all;
  const BufferId id = flags ? BufferId::found_inf : BufferId::norm_limbs;
  const TracedBuffer* const result = find(trace.shown().front().steps[step], id);
  if (result == nullptr) return all;
  Json parts = Json::array();
  for (std::size_t r = 0; r < trace.shown().size(); ++r) {
    const TracedBuffer* const grad = find(trace.shown()[r].steps[step], BufferId::unscaled_grad);
    if (grad == nullptr) continue;
    Json part = words_json(flags ? own_found_inf(trace, *grad) : own_limbs(trace, *grad));
    part["rank"] = r;
    parts.push_back(part);
  }
  all.push_back({{"what", name(id)},
                 {"op", flags ? "or" : "sum"},
                 {"parts", parts},
                 {"result", words_json(*result)}});
  return all;
}

Json chunks_json(const StepTrace& trace, std::size_t step) {
  Json all = Json::array();
  for (std::size_t r = 0; r < trace.shown().size(); ++r) {
    const TracedStep& mine = trace.shown()[r].steps[step];
    const TracedBuffer* const grad = find(mine, BufferId::unscaled_grad);
    if (grad == nullptr || find(mine, BufferId::norm_limbs) == nullptr) continue;
    for (const Piece& piece : trace.model.layout().pieces(grad->ranges)) {
      NormLimbs limbs;
      reference::grad_norm_accumulate({}, values_of(*grad, piece), limbs);
      // The limbs of one chunk are its value exactly, and the 1-norm takes no root.
      const auto bits = std::bit_cast<std::uint64_t>(reference::grad_abs_finish(limbs));
      all.push_back({{"rank", r},
                     {"chunk", piece.global_begin / norm_chunk_numel},
                     {"tensor", piece.tensor},
                     {"bits", bits_text(bits, DType::fp64)},
                     {"value", exact_value(bits, DType::fp64)}});
    }
  }
  return all;
}

}  // namespace zeroproof::verification
