// Production with a fault in it against the reference.

#include "common/base/float_formats.hpp"
#include "verification/tools/trace/json_sections.hpp"
#include "verification/tools/trace/sections.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace zeroproof::verification {
namespace {

/// All NaNs are one value (R9).
bool same(std::uint64_t a, std::uint64_t b, DType dtype) {
  return visit_format(dtype, [&](auto format) {
    using Format = decltype(format);
    if constexpr (Format::is_float) {
      using Bits = typename Format::Bits;
      if (Format::is_nan(static_cast<Bits>(a)) && Format::is_nan(static_cast<Bits>(b))) return true;
    }
    return a == b;
  });
}

Json difference(std::uint64_t got, std::uint64_t want, DType dtype) {
  return {{"got", bits_text(got, dtype)}, {"want", bits_text(want, dtype)}};
}

/// The first one in a buffer; null if there is none.
Json first_difference(const FlatLayout& layout, const TracedBuffer& got, const TracedBuffer& want) {
  if (holds_words(want.id)) {
    for (std::int64_t word = 0; word < std::min(got.numel(), want.numel()); ++word) {
      const DType dtype = word_dtype(want, word);
      if (same(got.bits(word), want.bits(word), dtype)) continue;
      Json found = difference(got.bits(word), want.bits(word), dtype);
      found["word"] = word_name(want.id, word);
      return found;
    }
    return {};
  }
  const std::vector<ParameterBits> ours = parameters_in(layout, want);
  const std::vector<ParameterBits> theirs = parameters_in(layout, got);
  std::size_t at = 0;
  for (const ParameterBits& element : ours) {
    while (at < theirs.size() && theirs[at].parameter < element.parameter) ++at;
    if (at == theirs.size() || theirs[at].parameter != element.parameter) {
      return {{"got", "nothing"},
              {"want", bits_text(element.bits, want.dtype)},
              {"parameter", element.parameter}};
    }
    if (same(theirs[at].bits, element.bits, want.dtype)) continue;
    Json found = difference(theirs[at].bits, element.bits, want.dtype);
    found["parameter"] = element.parameter;
    return found;
  }
  return {};
}

void add_differences(const StepTrace& trace, std::size_t step, Phase phase, std::size_t rank,
                     Json& all) {
  for (const TracedBuffer& want : trace.reference[rank].steps[step].buffers) {
    if (want.phase != phase) continue;
    for (const TracedBuffer& got : trace.production[rank].steps[step].buffers) {
      if (got.phase != want.phase || got.id != want.id) continue;
      Json found = first_difference(trace.model.layout(), got, want);
      if (found.is_null()) continue;
      found["step"] = step + 1;
      found["rank"] = rank;
      found["phase"] = name(want.phase);
      found["buffer"] = name(want.id);
      all.push_back(found);
    }
  }
}

}  // namespace

Json differences_json(const StepTrace& trace) {
  Json all = Json::array();
  for (std::size_t step = 0; step < static_cast<std::size_t>(trace.settings.steps); ++step) {
    for (const Phase phase :
         all_phases) {  // as the data flow: of all ranks, before the buffers computed from them
      for (std::size_t rank = 0; rank < trace.reference.size(); ++rank)
        add_differences(trace, step, phase, rank, all);
    }
  }
  return all;
}

}  // namespace zeroproof::verification
