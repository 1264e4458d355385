#pragma once
// Values of a trace in JSON: bits as hexadecimal text, and the same numbers exactly.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// "0x3f800000", in the width of the dtype.
std::string bits_text(std::uint64_t bits, DType dtype);

/// The number these bits are: a real, an integer, or "NaN", "Infinity" or "-Infinity".
Json exact_value(std::uint64_t bits, DType dtype);

/// An element of a buffer by the number of its parameter; padding is left out.
struct ParameterBits {
  std::int64_t parameter = 0;
  std::uint64_t bits = 0;
};

/// Parameters are counted as in elements_of().
std::vector<ParameterBits> parameters_in(const FlatLayout& layout, const TracedBuffer& buffer);

/// {"dtype", "parameters", "bits", "values"}
Json elements_json(DType dtype, const std::vector<ParameterBits>& elements);

/// The same of an fp32 array over the whole numbering, narrowed without loss to dtype.
/// [padded_numel]
Json elements_json(const FlatLayout& layout, Span<const float> values, DType dtype);

/// {"dtype", "names", "bits", "values"}
Json words_json(const TracedBuffer& buffer);

/// One or the other.
Json buffer_json(const FlatLayout& layout, const TracedBuffer& buffer);

}  // namespace zeroproof::verification
