#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/base/philox.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Parameters that decide whether an element is dropped.
struct DropoutWords {
  std::uint64_t seed;
  std::uint64_t first_index;
  std::uint32_t t;
  std::uint32_t threshold;
  float scale;

  DropoutWords(const DropoutDraw& draw, const host::DropoutRule& rule)
      : seed(draw.seed),
        first_index(draw.first_index),
        t(static_cast<std::uint32_t>(draw.step)),
        threshold(rule.threshold),
        scale(rule.scale) {}

  ZP_DEVICE PhiloxWords block(std::uint64_t index) const {
    return philox_words(seed, dropout_stream, t, index / 4);
  }

  ZP_DEVICE std::uint32_t word(std::int64_t i) const {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(i);
    const PhiloxWords r = block(index);
    return select_word(static_cast<std::uint32_t>(index % 4), r.w[0], r.w[1], r.w[2], r.w[3]);
  }

  /// Decisions for elements i to i + 3, which use one block of words, or two if they do not start
  /// at one.
  ZP_DEVICE void four(std::int64_t i, std::uint32_t* words) const {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(i);
    const std::uint32_t skip = static_cast<std::uint32_t>(index % 4);
    const PhiloxWords low = block(index);
    PhiloxWords high{};
    if (skip != 0U) high = block(index + 4);
    std::uint32_t r[8];
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) {
      r[k] = low.w[k];
      r[4 + k] = high.w[k];
    }
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) words[k] = select_word(skip, r[k], r[k + 1], r[k + 2], r[k + 3]);
  }

  ZP_DEVICE float kept(float value, std::uint32_t word) const {
    const float product = value * scale;
    return word >= threshold ? product : 0.0F;
  }
};

struct BiasDropout {
  static constexpr int pack_numel = 4;
  DropoutWords words;
  const float* x;         // [rows, columns]
  const float* bias;      // [columns], or null
  const float* residual;  // as x
  float* y;               // as x
  std::int64_t columns;

  ZP_DEVICE void one(std::int64_t i) const {
    const float u = bias == nullptr ? x[i] : x[i] + bias[i % columns];
    y[i] = words.kept(u, words.word(i)) + residual[i];
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> u = load_pack(x + i);
    if (bias != nullptr) {
      std::int64_t column = i % columns;
      ZP_UNROLL
      for (int k = 0; k < pack_numel; ++k) {
        u.v[k] = u.v[k] + bias[column];
        column = column + 1 == columns ? 0 : column + 1;
      }
    }
    std::uint32_t w[4];
    words.four(i, w);
    Pack<float> out = load_pack(residual + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) out.v[k] = words.kept(u.v[k], w[k]) + out.v[k];
    store_pack(y + i, out);
  }
};

struct BiasDropoutBackward {
  static constexpr int pack_numel = 4;
  DropoutWords words;
  const float* dy;
  float* dx;

  ZP_DEVICE void one(std::int64_t i) const { dx[i] = words.kept(dy[i], words.word(i)); }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> out = load_pack(dy + i);
    std::uint32_t w[4];
    words.four(i, w);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) out.v[k] = words.kept(out.v[k], w[k]);
    store_pack(dx + i, out);
  }
};

}  // namespace

void bias_dropout(const Exec&, const DropoutDraw& draw, std::int64_t columns, double probability,
                  Span<const float> x, Span<const float> bias, Span<const float> residual,
                  Span<float> y) {
  host::check_bias_dropout(columns, x.size(), bias.size(), residual.size(), y.size());
  const DropoutWords words(draw, host::dropout_rule("bias_dropout", probability));
  if (x.empty()) return;
  const BiasDropout operation{words,           x.data(), bias.empty() ? nullptr : bias.data(),
                              residual.data(), y.data(), columns};
  run_elementwise(operation, numel(x), operation.x, operation.residual, operation.y);
}

void bias_dropout_backward(const Exec&, const DropoutDraw& draw, double probability,
                           Span<const float> dy, Span<float> dx) {
  require_same_numel("dy", dy, "dx", dx);
  const DropoutWords words(draw, host::dropout_rule("bias_dropout_backward", probability));
  if (dy.empty()) return;
  const BiasDropoutBackward operation{words, dy.data(), dx.data()};
  run_elementwise(operation, numel(dy), operation.dy, operation.dx);
}

}  // namespace zeroproof::cuda::device
