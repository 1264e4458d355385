#pragma once
// How a tensor is quantized: the payload of a config, its fields and their values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "common/io/json.hpp"
#include "verification/tools/quantize/yaml_value.hpp"

namespace zeroproof {

enum class QuantFormat : std::uint8_t { bf16, fp16, e4m3, e5m2, int8, int4 };
enum class QuantRecipe : std::uint8_t { none, delayed, current, blockwise, mxfp8 };
enum class AmaxAlgorithm : std::uint8_t { max, most_recent };
enum class QuantBlock : std::uint8_t { none, rows_128, squares_128, rows_32 };
enum class CalibrationMethod : std::uint8_t { none, max, percentile, entropy, mse, smoothquant };

Span<const std::string_view> names_of(QuantFormat);
Span<const std::string_view> names_of(QuantRecipe);
Span<const std::string_view> names_of(AmaxAlgorithm);
Span<const std::string_view> names_of(QuantBlock);
Span<const std::string_view> names_of(CalibrationMethod);

/// A format that needs a scale has a recipe, which computes it in every step, or a calibration,
/// which computes it once; bf16 and fp16 have neither.
struct QuantPayload {
  QuantFormat format = QuantFormat::bf16;
  QuantRecipe recipe = QuantRecipe::none;
  int margin = 0;
  int history = 1024;
  AmaxAlgorithm amax = AmaxAlgorithm::max;
  double epsilon = 0;
  bool power_of_two = false;
  QuantBlock block = QuantBlock::none;
  CalibrationMethod calibration = CalibrationMethod::none;
  double percentile = 99.99;
  int bins = 2048;
  double alpha = 1;
  int axis = -1;  ///< -1: one scale for the tensor

  bool is_fp8() const { return format == QuantFormat::e4m3 || format == QuantFormat::e5m2; }
  bool has_scale() const {
    return is_fp8() || format == QuantFormat::int8 || format == QuantFormat::int4;
  }
};

/// A row of the one table of fields, in the order in which they are read: fields follow those they
/// depend on.
struct PayloadField {
  std::string_view key;       ///< "margin", "calibration.bins"
  std::string_view values;    ///< its allowed values, in words
  std::string_view standard;  ///< its default; "": it must be given
  std::string_view with;      ///< fields with which it has an effect; it is refused otherwise
  bool (*applies)(const QuantPayload&);
  void (*read)(QuantPayload&, const YamlValue&);
  Json (*written)(const QuantPayload&);
};
Span<const PayloadField> payload_fields();

/// A map of fields. Errors (ErrorCode::config), with file, line and key: a field that is unknown,
/// of a wrong type, out of its range, without effect beside the others, or missing.
QuantPayload read_payload(const YamlValue& value);

/// Every field that has an effect, also fields with their default.
Json payload_json(const QuantPayload& payload);

/// "e4m3 delayed", "int8 percentile": one or two words.
std::string short_name(const QuantPayload& payload);

}  // namespace zeroproof
