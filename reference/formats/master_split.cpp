#include <bit>
#include <cmath>

#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

bool is_nan_param(bf16 value) { return (value.bits & 0x7FFFU) > 0x7F80U; }

/// The remainder as an integer: the distance of the master above the parameter, in units of the
/// last place of fp32. It is negative where the parameter was rounded up.
std::int32_t above_the_parameter(std::uint16_t remainder) {
  return remainder < 0x8000U ? std::int32_t{remainder} : std::int32_t{remainder} - 0x10000;
}

}  // namespace

void split_master(const Exec&, SplitRule rule, Span<const float> master, Span<bf16> param,
                  Span<std::uint16_t> remainder) {
  check_same_numel("split_master", "master", master.size(), "param", param.size());
  check_same_numel("split_master", "master", master.size(), "remainder", remainder.size());
  for (std::size_t i = 0; i < master.size(); ++i) {
    if (rule == SplitRule::nearest && std::isnan(master[i])) {
      // The sum below would turn some NaNs into infinity and others into zero [SPLIT:away].
      param[i].bits = 0x7FFF;
      remainder[i] = 0;
      continue;
    }
    const auto b = std::bit_cast<std::uint32_t>(master[i]);
    param[i].bits = static_cast<std::uint16_t>((b + 0x8000U) >> 16);
    remainder[i] = static_cast<std::uint16_t>(b & 0xFFFFU);
  }
}

void join_master(const Exec&, SplitRule rule, Span<const bf16> param,
                 Span<const std::uint16_t> remainder, Span<float> master) {
  check_same_numel("join_master", "param", param.size(), "remainder", remainder.size());
  check_same_numel("join_master", "param", param.size(), "master", master.size());
  for (std::size_t i = 0; i < param.size(); ++i) {
    if (rule == SplitRule::nearest && is_nan_param(param[i])) {
      master[i] = std::bit_cast<float>(0x7FFFFFFFU);
      continue;
    }
    const std::uint32_t p = std::uint32_t{param[i].bits} << 16;
    master[i] =
        std::bit_cast<float>(p + static_cast<std::uint32_t>(above_the_parameter(remainder[i])));
  }
}

}  // namespace zeroproof::reference
