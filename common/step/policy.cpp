#include "common/step/policy.hpp"

#include <array>

namespace zeroproof {
namespace {

constexpr auto rules = [] {
  std::array<std::string_view, update_rules.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = update_rules[i].name;
  return names;
}();
constexpr std::array<std::string_view, 4> norms = {"chunk1024", "exact", "inf", "one"};
constexpr std::array<std::string_view, 2> reductions = {"mean", "tokens"};
constexpr std::array<std::string_view, 3> nonfinite = {"skip", "error", "propagate"};
constexpr std::array<std::string_view, 2> missing = {"zero", "skip"};
constexpr std::array<std::string_view, 2> roundings = {"nearest", "stochastic"};
constexpr std::array<std::string_view, 3> orders = {"by_stage", "contiguous", "strided"};
constexpr std::array<std::string_view, 3> sums = {"tree", "binned", "native"};
constexpr std::array<std::string_view, 3> windows = {"off", "on", "params"};
constexpr std::array<std::string_view, 2> transports = {"copies", "nccl"};
constexpr std::array<std::string_view, 2> offload_orders = {"flat", "tensors"};
constexpr std::array<std::string_view, 2> offload_places = {"host", "file"};
constexpr std::array<std::string_view, 4> state_formats = {"fp32", "bf16", "fp16", "e4m3"};
constexpr std::array<std::string_view, 2> master_formats = {"fp32", "bf16"};

}  // namespace

Span<const std::string_view> names_of(UpdateRule) { return rules; }
Span<const std::string_view> names_of(NormForm) { return norms; }
Span<const std::string_view> names_of(LossReduction) { return reductions; }
Span<const std::string_view> names_of(OnNonfinite) { return nonfinite; }
Span<const std::string_view> names_of(MissingGrad) { return missing; }
Span<const std::string_view> names_of(ParamRounding) { return roundings; }
Span<const std::string_view> names_of(MicroBatchOrder) { return orders; }
Span<const std::string_view> names_of(GradSum) { return sums; }
Span<const std::string_view> names_of(Windows) { return windows; }
Span<const std::string_view> names_of(Transport) { return transports; }
Span<const std::string_view> names_of(OffloadOrder) { return offload_orders; }
Span<const std::string_view> names_of(OffloadPlace) { return offload_places; }
Span<const std::string_view> names_of(StateFormat) { return state_formats; }
Span<const std::string_view> names_of(MasterFormat) { return master_formats; }

}  // namespace zeroproof
