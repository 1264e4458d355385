#include "verification/tools/trace/trace_values.hpp"

#include <bit>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {

std::string bits_text(std::uint64_t bits, DType dtype) {
  return fmt::format("{:#0{}x}", bits, 2 + 2 * num_bytes(dtype));
}

Json exact_value(std::uint64_t bits, DType dtype) {
  return visit_format(dtype, [&](auto format) -> Json {
    using Format = decltype(format);
    if constexpr (Format::is_float) {
      const auto value = static_cast<double>(value_of<Format>(bits));
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
      return value;
    } else {
      return bits;
    }
  });
}

std::vector<ParameterBits> parameters_in(const FlatLayout& layout, const TracedBuffer& buffer) {
  const std::vector<std::int64_t> all = elements_of(layout);
  std::vector<ParameterBits> found;
  std::int64_t local = 0;
  for (const FlatRange& range : buffer.ranges) {
    for (std::size_t e = 0; e < all.size(); ++e) {
      if (all[e] < range.begin || all[e] >= range.end) continue;
      found.push_back({static_cast<std::int64_t>(e), buffer.bits(local + all[e] - range.begin)});
    }
    local += range.numel();
  }
  return found;
}

Json elements_json(DType dtype, const std::vector<ParameterBits>& elements) {
  Json parameters = Json::array();
  Json bits = Json::array();
  Json values = Json::array();
  for (const ParameterBits& element : elements) {
    parameters.push_back(element.parameter);
    bits.push_back(bits_text(element.bits, dtype));
    values.push_back(exact_value(element.bits, dtype));
  }
  return {{"dtype", name(dtype)}, {"parameters", parameters}, {"bits", bits}, {"values", values}};
}

Json elements_json(const FlatLayout& layout, Span<const float> values, DType dtype) {
  std::vector<ParameterBits> elements;
  for (const std::int64_t element : elements_of(layout)) {
    const float value = values[element];
    const std::uint64_t bits = dtype == DType::fp16
                                   ? to_fp16(value).bits
                                   : std::uint64_t{std::bit_cast<std::uint32_t>(value)};
    elements.push_back({static_cast<std::int64_t>(elements.size()), bits});
  }
  return elements_json(dtype, elements);
}

Json words_json(const TracedBuffer& buffer) {
  Json names = Json::array();
  Json bits = Json::array();
  Json values = Json::array();
  for (std::int64_t word = 0; word < buffer.numel(); ++word) {
    const DType dtype = word_dtype(buffer, word);
    names.push_back(word_name(buffer.id, word));
    bits.push_back(bits_text(buffer.bits(word), dtype));
    values.push_back(exact_value(buffer.bits(word), dtype));
  }
  const DType shown = buffer.id == BufferId::step_scalars ? DType::fp32 : buffer.dtype;
  return {{"dtype", name(shown)}, {"names", names}, {"bits", bits}, {"values", values}};
}

Json buffer_json(const FlatLayout& layout, const TracedBuffer& buffer) {
  return holds_words(buffer.id) ? words_json(buffer)
                                : elements_json(buffer.dtype, parameters_in(layout, buffer));
}

}  // namespace zeroproof::verification
