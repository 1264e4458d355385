// Dropout (R15), with words drawn for 256 elements at a time.

#include "common/contracts/bias_dropout.hpp"
#include "cuda/host/simd/draw_words.hpp"
#include "cuda/host/simd/layer_variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// Calls body(begin, count, words) for ranges that cover [0, numel); words[i] is that of element
/// begin + i.
template <class Body>
inline void for_drawn(const Draw& draw, std::int64_t numel, const Body& body) {
  const RoundKeys keys = round_keys(draw.seed);
  alignas(64) std::uint32_t words[drawn_words];
  std::uint64_t index = draw.index;
  for (std::int64_t begin = 0; begin < numel;) {
    draw_words(keys, dropout_stream, draw.step, index / 4, words);
    const std::int64_t lead =
        static_cast<std::int64_t>(index % 4);  // words of elements before the first
    const std::int64_t left = numel - begin;
    const std::int64_t count = left < drawn_words - lead ? left : drawn_words - lead;
    body(begin, count, words + lead);
    begin += count;
    index += static_cast<std::uint64_t>(count);
  }
}

/// The product of a dropped element is computed too and then masked, whatever its value.
inline float kept(const Dropout& dropout, float value, std::uint32_t word) {
  const float product = value * dropout.scale;
  return word >= dropout.threshold ? product : 0.0F;
}

}  // namespace

void bias_dropout(const Dropout& dropout, std::int64_t columns, std::int64_t column, const float* x,
                  const float* bias, const float* residual, float* y, std::int64_t numel) {
  for_drawn(dropout.draw, numel,
            [&](std::int64_t begin, std::int64_t count, const std::uint32_t* words) {
              if (bias == nullptr) {
#pragma omp simd
                for (std::int64_t i = 0; i < count; ++i) {
                  y[begin + i] = kept(dropout, x[begin + i], words[i]) + residual[begin + i];
                }
                return;
              }
              for (std::int64_t done = 0; done < count;) {  // as far as the row goes
                const std::int64_t left = columns - column;
                const std::int64_t stretch = left < count - done ? left : count - done;
                const std::int64_t at = begin + done;
#pragma omp simd
                for (std::int64_t i = 0; i < stretch; ++i) {
                  const float u = x[at + i] + bias[column + i];
                  y[at + i] = kept(dropout, u, words[done + i]) + residual[at + i];
                }
                done += stretch;
                column = column + stretch == columns ? 0 : column + stretch;
              }
            });
}

void bias_dropout_backward(const Dropout& dropout, const float* dy, float* dx, std::int64_t numel) {
  for_drawn(dropout.draw, numel,
            [&](std::int64_t begin, std::int64_t count, const std::uint32_t* words) {
#pragma omp simd
              for (std::int64_t i = 0; i < count; ++i)
                dx[begin + i] = kept(dropout, dy[begin + i], words[i]);
            });
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
