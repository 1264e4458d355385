#include "verification/tools/trace/scaled_way.hpp"

#include <algorithm>
#include <bit>

#include "common/base/float_formats.hpp"
#include "common/step/scaled_params.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/trace/sections.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace zeroproof::verification {
namespace {

/// As the step left it; null if it did not.
const TracedBuffer* left(const TracedStep& step, BufferId id) {
  const auto found = std::ranges::find(step.buffers, id, &TracedBuffer::id);
  return found == step.buffers.end() ? nullptr : &*found;
}

float widened(std::uint64_t code, DType dtype) {
  const auto bits = static_cast<std::uint8_t>(code);
  return dtype == DType::e4m3 ? to_float(e4m3{bits}) : to_float(e5m2{bits});
}

std::string shown(float value) {
  return shown_value(std::bit_cast<std::uint32_t>(value), DType::fp32);
}

}  // namespace

std::vector<ScaledWay> scaled_ways(const StepTrace& trace, std::size_t rank, std::size_t step) {
  std::vector<ScaledWay> ways;
  const TraceSettings& settings = trace.settings;
  const TracedStep& mine = trace.shown()[rank].steps[step];
  const TracedBuffer* const codes = left(mine, BufferId::param_shard);
  const TracedBuffer* const master = left(mine, BufferId::master);
  if (!has_scales(settings.param_dtype) || codes == nullptr || master == nullptr) return ways;
  const TracedBuffer* const scale = left(mine, BufferId::param_scale);
  const TracedBuffer* const scale_inv = left(mine, BufferId::param_scale_inv);
  if (scale == nullptr || scale_inv == nullptr) return ways;
  const FlatLayout& layout = trace.model.layout();
  const TensorBlocks blocks = blocks_of(
      static_cast<const StepSettings&>(traced_setup(settings, trace.model, trace.shards)));
  const std::vector<std::int64_t> elements = elements_of(layout);
  for (const Piece& piece : layout.pieces(codes->ranges)) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      ScaledWay way;
      const auto at = std::ranges::find(elements, piece.global_begin + i);
      way.parameter = at - elements.begin();
      way.block = blocks.block_of(piece.tensor, piece.tensor_begin + i);
      const auto local = static_cast<std::size_t>(piece.local_begin + i);
      const auto block = static_cast<std::size_t>(way.block);
      way.master = master->floats()[local];
      way.scale = scale->floats()[block];
      const float value = settings.scaling.value == QuantizedValue::direct
                              ? way.master
                              : to_float(to_bf16(way.master));
      way.scaled = value * way.scale;
      way.code = codes->bits(piece.local_begin + i);
      way.read = widened(way.code, settings.param_dtype) * scale_inv->floats()[block];
      ways.push_back(way);
    }
  }
  return ways;
}

std::string scaled_text(const StepTrace& trace, std::size_t step) {
  const std::vector<std::string> names = element_names(trace.model.layout());
  std::string out;
  for (std::size_t rank = 0; rank < trace.shown().size(); ++rank) {
    const std::vector<ScaledWay> ways = scaled_ways(trace, rank, step);
    if (ways.empty()) continue;
    TraceColumn labels{"", {}}, block{"block", {}}, master{"master", {}},
        scaled{"y = v * scale", {}}, code{"code", {}}, read{"x = code * scale_inv", {}};
    for (const ScaledWay& way : ways) {
      labels.cells.push_back(names[way.parameter]);
      block.cells.push_back(std::to_string(way.block));
      master.cells.push_back(shown(way.master));
      scaled.cells.push_back(shown(way.scaled));
      code.cells.push_back(shown_value(way.code, trace.settings.param_dtype));
      read.cells.push_back(shown(way.read));
    }
    out += fmt::format("\n  rank {}: the way of its masters\n", rank) +
           table(labels, {block, master, scaled, code, read});
  }
  return out;
}

Json ways_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  for (std::size_t rank = 0; phase == Phase::cast && rank < trace.shown().size(); ++rank) {
    for (const ScaledWay& way : scaled_ways(trace, rank, step)) {
      const auto bits = [](float value) {
        return bits_text(std::bit_cast<std::uint32_t>(value), DType::fp32);
      };
      all.push_back({{"rank", rank},
                     {"parameter", way.parameter},
                     {"block", way.block},
                     {"scaled", bits(way.scaled)},
                     {"code", bits_text(way.code, trace.settings.param_dtype)},
                     {"read", bits(way.read)}});
    }
  }
  return all;
}

}  // namespace zeroproof::verification
