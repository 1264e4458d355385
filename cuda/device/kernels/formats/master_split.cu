#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Parts {
  std::uint32_t param;
  std::uint32_t remainder;
};

ZP_HOST_DEVICE inline Parts split_of(float master, bool keeps_nan) {
  const std::uint32_t bits = bits_of(master);
  if (keeps_nan && (bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFFU, 0U};
  return {((bits + 0x8000U) >> 16) & 0xFFFFU, bits & 0xFFFFU};
}

ZP_HOST_DEVICE inline float master_of(std::uint32_t param, std::uint32_t remainder,
                                      bool keeps_nan) {
  if (keeps_nan && (param & 0x7FFFU) > 0x7F80U) return float_of(0x7FFFFFFFU);
  const std::uint32_t rounded_up = remainder >= 0x8000U ? 0x10000U : 0U;
  return float_of((param << 16) + remainder - rounded_up);
}

/// 16-bit elements in a pack of 32-bit words: the earlier one in the lower bits.
ZP_HOST_DEVICE inline std::uint32_t half_of(const Pack<std::uint32_t>& pack, int k) {
  return (pack.v[k / 2] >> (k % 2 * 16)) & 0xFFFFU;
}

struct Split {
  static constexpr int pack_numel = 8;
  const float* master;  // [numel]
  bf16* param;
  std::uint16_t* remainder;
  bool keeps_nan;

  ZP_DEVICE void one(std::int64_t i) const {
    const Parts parts = split_of(master[i], keeps_nan);
    param[i].bits = static_cast<std::uint16_t>(parts.param);
    remainder[i] = static_cast<std::uint16_t>(parts.remainder);
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> in[2] = {load_pack(master + i), load_pack(master + i + 4)};
    Pack<std::uint32_t> high{}, low{};
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const Parts parts = split_of(in[k / 4].v[k % 4], keeps_nan);
      high.v[k / 2] |= parts.param << (k % 2 * 16);
      low.v[k / 2] |= parts.remainder << (k % 2 * 16);
    }
    store_pack(reinterpret_cast<std::uint32_t*>(param + i), high);
    store_pack(reinterpret_cast<std::uint32_t*>(remainder + i), low);
  }
};

struct Join {
  static constexpr int pack_numel = 8;
  const bf16* param;  // [numel]
  const std::uint16_t* remainder;
  float* master;
  bool keeps_nan;

  ZP_DEVICE void one(std::int64_t i) const {
    master[i] = master_of(param[i].bits, remainder[i], keeps_nan);
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<std::uint32_t> high = load_pack(reinterpret_cast<const std::uint32_t*>(param + i));
    const Pack<std::uint32_t> low =
        load_pack(reinterpret_cast<const std::uint32_t*>(remainder + i));
    Pack<float> out[2];
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k)
      out[k / 4].v[k % 4] = master_of(half_of(high, k), half_of(low, k), keeps_nan);
    store_pack(master + i, out[0]);
    store_pack(master + i + 4, out[1]);
  }
};

}  // namespace

void split_master(const Exec&, SplitRule rule, Span<const float> master, Span<bf16> param,
                  Span<std::uint16_t> remainder) {
  require_same_numel("master", master, "param", param);
  require_same_numel("master", master, "remainder", remainder);
  if (master.empty()) return;
  const Split split{master.data(), param.data(), remainder.data(), rule == SplitRule::nearest};
  run_elementwise(split, numel(master), split.master, split.param, split.remainder);
}

void join_master(const Exec&, SplitRule rule, Span<const bf16> param,
                 Span<const std::uint16_t> remainder, Span<float> master) {
  require_same_numel("param", param, "master", master);
  require_same_numel("remainder", remainder, "master", master);
  if (param.empty()) return;
  const Join join{param.data(), remainder.data(), master.data(), rule == SplitRule::nearest};
  run_elementwise(join, numel(param), join.param, join.remainder, join.master);
}

}  // namespace zeroproof::cuda::device
