#include <bit>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::uint32_t infinite_bits = 0x7F800000U;

}  // namespace

void split_master(const Exec& exec, SplitRule rule, Span<const float> master, Span<bf16> param,
                  Span<std::uint16_t> remainder) {
  require_same_numel("split_master", "master", master.size(), "param", param.size());
  require_same_numel("split_master", "master", master.size(), "remainder", remainder.size());
  const std::uint32_t largest_split = rule == SplitRule::nearest ? infinite_bits : 0xFFFFFFFFU;
  parallel_blocks(exec, numel(master), [&](std::int64_t begin, std::int64_t end) {
    const float* const from = master.data();
    bf16* const high = param.data();
    std::uint16_t* const low = remainder.data();
    for (std::int64_t i = begin; i < end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(from[i]);
      const bool nan = (bits & 0x7FFFFFFFU) > largest_split;
      high[i].bits = static_cast<std::uint16_t>(nan ? 0x7FFFU : (bits + 0x8000U) >> 16);
      low[i] = static_cast<std::uint16_t>(nan ? 0U : bits & 0xFFFFU);
    }
  });
}

void join_master(const Exec& exec, SplitRule rule, Span<const bf16> param,
                 Span<const std::uint16_t> remainder, Span<float> master) {
  require_same_numel("join_master", "param", param.size(), "master", master.size());
  require_same_numel("join_master", "remainder", remainder.size(), "master", master.size());
  const std::uint32_t largest_joined = rule == SplitRule::nearest ? 0x7F80U : 0xFFFFU;
  parallel_blocks(exec, numel(param), [&](std::int64_t begin, std::int64_t end) {
    const bf16* const high = param.data();
    const std::uint16_t* const low = remainder.data();
    float* const to = master.data();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t p = high[i].bits, r = low[i];
      const std::uint32_t joined = (p << 16) + r - (r >= 0x8000U ? 0x10000U : 0U);
      to[i] = std::bit_cast<float>((p & 0x7FFFU) > largest_joined ? 0x7FFFFFFFU : joined);
    }
  });
}

}  // namespace zeroproof::cuda::host
