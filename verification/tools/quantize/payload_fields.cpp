// The table of a payload's fields.

#include <array>

#include "verification/tools/quantize/payload.hpp"

namespace zeroproof {
namespace {

using P = const QuantPayload&;
using V = const YamlValue&;

template <class Choice>
Choice choice(V v, std::size_t first = 0) {
  const Span<const std::string_view> names = names_of(Choice{});
  return static_cast<Choice>(first + v.name(names.subspan(first, names.size() - first)));
}
template <class Choice>
Json name_json(Choice value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}
int small(V v, int low, int high) { return static_cast<int>(v.integer(low, high)); }

void read_recipe(QuantPayload& p, V v) {
  p.recipe = choice<QuantRecipe>(v, 1);
  p.power_of_two = p.recipe == QuantRecipe::blockwise;
  if (p.recipe == QuantRecipe::mxfp8) p.block = QuantBlock::rows_32;
}

/// The scales of mxfp8 are e8m0 of 32 elements in a row, those of blockwise are fp32.
void read_block(QuantPayload& p, V v) {
  const auto block = choice<QuantBlock>(v, 1);
  if ((block == QuantBlock::rows_32) != (p.recipe == QuantRecipe::mxfp8)) {
    v.reject(p.recipe == QuantRecipe::mxfp8 ? "1x32, the block of mxfp8"
                                            : "1x128 or 128x128, the blocks of blockwise");
  }
  p.block = block;
}

void read_method(QuantPayload& p, V v) {
  p.calibration = choice<CalibrationMethod>(v, 1);
  const bool eight_bits = p.calibration == CalibrationMethod::entropy ||
                          p.calibration == CalibrationMethod::smoothquant;
  if (eight_bits && p.format != QuantFormat::int8) {
    v.reject("a method for this format: entropy and smoothquant are for int8",
             "write max, percentile or mse");
  }
}

bool always(P) { return true; }
bool fp8(P p) { return p.is_fp8(); }
bool scaled(P p) { return p.has_scale() && p.recipe == QuantRecipe::none; }
bool delayed(P p) { return p.recipe == QuantRecipe::delayed; }
bool current(P p) { return p.recipe == QuantRecipe::current || p.recipe == QuantRecipe::blockwise; }
bool blocks(P p) { return p.recipe == QuantRecipe::blockwise || p.recipe == QuantRecipe::mxfp8; }
bool of_percentile(P p) { return p.calibration == CalibrationMethod::percentile; }
bool of_smoothquant(P p) { return p.calibration == CalibrationMethod::smoothquant; }
bool histogram(P p) {
  return p.calibration == CalibrationMethod::percentile ||
         p.calibration == CalibrationMethod::entropy;
}
bool channels(P p) {
  return p.calibration == CalibrationMethod::max || p.calibration == CalibrationMethod::mse ||
         of_smoothquant(p);
}

Json axis_json(P p) { return p.axis < 0 ? Json(nullptr) : Json(p.axis); }

constexpr std::array<PayloadField, 13> fields = {{
    {"format", "bf16, fp16, e4m3, e5m2, int8 or int4", "", "every payload", always,
     [](QuantPayload& p, V v) { p.format = choice<QuantFormat>(v); },
     [](P p) { return name_json(p.format); }},
    {"recipe", "delayed, current, blockwise or mxfp8", "none", "format e4m3, e5m2", fp8,
     read_recipe,
     [](P p) { return p.recipe == QuantRecipe::none ? Json(nullptr) : name_json(p.recipe); }},
    {"margin", "an integer from 0 to 32", "0", "recipe delayed", delayed,
     [](QuantPayload& p, V v) { p.margin = small(v, 0, 32); }, [](P p) { return Json(p.margin); }},
    {"history", "an integer from 1 to 1024", "1024", "recipe delayed", delayed,
     [](QuantPayload& p, V v) { p.history = small(v, 1, 1024); },
     [](P p) { return Json(p.history); }},
    {"amax", "max or most_recent", "max", "recipe delayed", delayed,
     [](QuantPayload& p, V v) { p.amax = choice<AmaxAlgorithm>(v); },
     [](P p) { return name_json(p.amax); }},
    {"epsilon", "a number from 0 to 1", "0", "recipe current, blockwise", current,
     [](QuantPayload& p, V v) { p.epsilon = v.number(0, 1); }, [](P p) { return Json(p.epsilon); }},
    {"power_of_two", "true or false", "true with blockwise, else false",
     "recipe current, blockwise", current,
     [](QuantPayload& p, V v) { p.power_of_two = v.boolean(); },
     [](P p) { return Json(p.power_of_two); }},
    {"block", "1x128, 128x128 or 1x32", "1x32 with mxfp8", "recipe blockwise, mxfp8", blocks,
     read_block, [](P p) { return name_json(p.block); }},
    {"calibration.method", "max, percentile, entropy, mse or smoothquant", "none",
     "formats of fp8 and integers, without recipe", scaled, read_method,
     [](P p) {
       return p.calibration == CalibrationMethod::none ? Json(nullptr) : name_json(p.calibration);
     }},
    {"calibration.percentile", "a number from 1 to 100", "99.99", "method percentile",
     of_percentile, [](QuantPayload& p, V v) { p.percentile = v.number(1, 100); },
     [](P p) { return Json(p.percentile); }},
    {"calibration.bins", "an integer from 256 to 65536", "2048", "method percentile, entropy",
     histogram, [](QuantPayload& p, V v) { p.bins = small(v, 256, 65536); },
     [](P p) { return Json(p.bins); }},
    {"calibration.alpha", "a number from 0 to 1", "1", "method smoothquant", of_smoothquant,
     [](QuantPayload& p, V v) { p.alpha = v.number(0, 1); }, [](P p) { return Json(p.alpha); }},
    {"calibration.axis", "an integer from 0 to 7", "none: one scale",
     "method max, mse, smoothquant", channels,
     [](QuantPayload& p, V v) { p.axis = small(v, 0, 7); }, axis_json},
}};

constexpr std::array<std::string_view, 6> formats = {"bf16", "fp16", "e4m3",
                                                     "e5m2", "int8", "int4"};
constexpr std::array<std::string_view, 5> recipes = {"none", "delayed", "current", "blockwise",
                                                     "mxfp8"};
constexpr std::array<std::string_view, 2> algorithms = {"max", "most_recent"};
constexpr std::array<std::string_view, 4> block_names = {"none", "1x128", "128x128", "1x32"};
constexpr std::array<std::string_view, 6> methods = {"none",    "max", "percentile",
                                                     "entropy", "mse", "smoothquant"};

}  // namespace

Span<const std::string_view> names_of(QuantFormat) { return formats; }
Span<const std::string_view> names_of(QuantRecipe) { return recipes; }
Span<const std::string_view> names_of(AmaxAlgorithm) { return algorithms; }
Span<const std::string_view> names_of(QuantBlock) { return block_names; }
Span<const std::string_view> names_of(CalibrationMethod) { return methods; }
Span<const PayloadField> payload_fields() { return fields; }

}  // namespace zeroproof
