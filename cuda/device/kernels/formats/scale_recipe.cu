#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/scale_element.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/scale_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Current {
  static constexpr int pack_numel = 1;
  const std::uint32_t* amax;  // [num_blocks]
  float* scale;
  float* scale_inv;
  CurrentScale of;

  ZP_DEVICE void one(std::int64_t i) const {
    const float s = of(amax[i]);
    scale[i] = s;
    scale_inv[i] = 1.0F / s;
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct Mxfp8 {
  static constexpr int pack_numel = 1;
  const std::uint32_t* amax;  // [num_blocks]
  e8m0* exponent;
  float* scale;
  Mxfp8Exponent of;

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint8_t code = of(amax[i]);
    exponent[i].bits = code;
    scale[i] = Mxfp8Exponent::scale_of(code);
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct Delayed {
  static constexpr int pack_numel = 1;
  std::uint32_t* history;  // [num_tensors * slots]
  float* scale;            // [num_tensors]
  float* scale_inv;
  std::int64_t slots;
  DelayedScale of;
  bool takes_largest, rolls_empty;

  ZP_DEVICE void one(std::int64_t t) const {
    std::uint32_t* const h = history + t * slots;
    const std::uint32_t collected = h[0];
    if (collected != 0U || rolls_empty) {
      std::uint32_t amax = collected;
      for (std::int64_t k = 1; k < slots; ++k) {
        if (takes_largest && h[k] > amax) amax = h[k];
        if (k > 1) h[k - 1] = h[k];
      }
      scale[t] = of(amax, scale[t]);
      if (slots > 1) h[slots - 1] = collected;
      h[0] = 0U;
    }
    scale_inv[t] = 1.0F / scale[t];
  }

  ZP_DEVICE void pack(std::int64_t t) const { one(t); }
};

}  // namespace

void current_scales(const Exec&, const CurrentScaling& settings, Span<const std::uint32_t> amax,
                    Span<float> scale, Span<float> scale_inv) {
  require_same_numel("amax", amax, "scale", scale);
  require_same_numel("amax", amax, "scale_inv", scale_inv);
  require_epsilon(settings.epsilon);
  if (amax.empty()) return;
  const Current operation{amax.data(), scale.data(), scale_inv.data(), current_scale(settings)};
  run_elementwise(operation, numel(amax));
}

void mxfp8_scales(const Exec&, Fp8 format, Span<const std::uint32_t> amax, Span<e8m0> exponent,
                  Span<float> scale) {
  require_same_numel("amax", amax, "exponent", exponent);
  require_same_numel("amax", amax, "scale", scale);
  if (amax.empty()) return;
  const Mxfp8 operation{amax.data(), exponent.data(), scale.data(), mxfp8_exponent(format)};
  run_elementwise(operation, numel(amax));
}

void delayed_scales(const Exec&, const DelayedScaling& options, Span<std::uint32_t> history,
                    Span<float> scale, Span<float> scale_inv) {
  require_history(options, history.size(), scale.size());
  require_same_numel("scale", scale, "scale_inv", scale_inv);
  if (scale.empty()) return;
  const Delayed operation{history.data(),
                          scale.data(),
                          scale_inv.data(),
                          options.history,
                          delayed_scale(options.format, options.margin),
                          options.choice == AmaxChoice::max,
                          options.empty == EmptyAmax::roll};
  run_elementwise(operation, numel(scale));
}

}  // namespace zeroproof::cuda::device
