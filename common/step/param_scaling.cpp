#include "common/step/param_scaling.hpp"

#include <array>

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 4> recipes = {"current", "delayed", "blockwise", "mxfp8"};
constexpr std::array<std::string_view, 2> blocks = {"128x128", "1x128"};
constexpr std::array<std::string_view, 2> masters = {"high_precision", "dequantised"};
constexpr std::array<std::string_view, 2> values = {"direct", "through_bf16"};
constexpr std::array<std::string_view, 2> choices = {"max", "most_recent"};
constexpr std::array<std::string_view, 2> empty = {"keep", "roll"};

}  // namespace

Span<const std::string_view> names_of(ScaleRecipe) { return recipes; }
Span<const std::string_view> names_of(ScaleBlocks) { return blocks; }
Span<const std::string_view> names_of(InitialMaster) { return masters; }
Span<const std::string_view> names_of(QuantizedValue) { return values; }
Span<const std::string_view> names_of(AmaxChoice) { return choices; }
Span<const std::string_view> names_of(EmptyAmax) { return empty; }

}  // namespace zeroproof
