// Operations outside the step, each with one fault: whole functions with the contract's signatures.
// Correct parts, including views that do not fit, call production.

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/host/operations.hpp"
#include "reference/layers/eight_blocks.hpp"
#include "reference/layers/scalar_math.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

namespace host = cuda::host;
using reference::sum_in_blocks;
using reference::scalar_math::exp_f32;
using reference::scalar_math::sigmoid_f32;

/// Gate and linear part of element i of y, with their bias.
struct GatedInput {
  std::int64_t columns;
  Span<const float> x, bias;

  std::size_t at(std::int64_t i) const {  // of the gate, in rows of 2 * columns
    return static_cast<std::size_t>(i / columns * (2 * columns) + i % columns);
  }
  float gate(std::int64_t i) const { return with_bias(x[at(i)], i % columns); }
  float linear(std::int64_t i) const {
    return with_bias(x[at(i) + static_cast<std::size_t>(columns)], columns + i % columns);
  }
  float with_bias(float value, std::int64_t k) const {
    return bias.empty() ? value : value + bias[k];
  }
};

float weight_of(Span<const float> weight, std::int64_t row, float value) {
  return weight.empty() ? value : value * weight[row];
}

void slope_is_sigmoid(const Exec& exec, std::int64_t columns, float limit, Span<const float> dy,
                      Span<const float> x, Span<const float> bias, Span<const float> weight,
                      Span<float> dx, Span<float> d_weight) {
  host::swiglu_backward(exec, columns, limit, dy, x, bias, weight, dx, d_weight);
  const GatedInput in{columns, x, bias};
  for (std::int64_t i = 0; i < numel(dy); ++i) {
    float u = in.gate(i), v = in.linear(i);
    if (limit > 0 && u > limit) continue;
    if (limit > 0) v = v > limit ? limit : (v < -limit ? -limit : v);
    const float g = weight_of(weight, i / columns, dy[i]);
    const float p = g * v;
    dx[in.at(i)] = p * sigmoid_f32(u);
  }
}

void held_at_one_end(const Exec& exec, std::int64_t columns, float limit, Span<const float> x,
                     Span<const float> bias, Span<const float> weight, Span<float> y) {
  host::swiglu(exec, columns, limit, x, bias, weight, y);
  const GatedInput in{columns, x, bias};
  for (std::int64_t i = 0; i < numel(y); ++i) {
    const float gate = in.gate(i), v = in.linear(i);
    if (!(limit > 0) || !(v < -limit)) continue;
    const float u = gate > limit ? limit : gate;
    const float h = u * sigmoid_f32(u);
    y[i] = weight_of(weight, i / columns, h * v);
  }
}

void mask_off_by_one(const Exec& exec, std::int64_t n, float scale, Span<const float> x,
                     Span<float> y) {
  host::causal_softmax(exec, n, scale, x, y);
  std::vector<float> e(n);
  for (std::int64_t r = 0; r < numel(x) / n; ++r) {
    const std::int64_t seen = std::min(r % n + 2, n);
    const auto v = [&](std::int64_t j) { return scale * x[r * n + j]; };
    float m = v(0);
    for (std::int64_t j = 1; j < seen; ++j) m = v(j) > m || v(j) != v(j) ? v(j) : m;
    for (std::int64_t j = 0; j < seen; ++j) e[j] = exp_f32(v(j) - m);
    const float s = sum_in_blocks(n, [&](std::int64_t j) { return j < seen ? e[j] : 0.0F; });
    for (std::int64_t j = 0; j < seen; ++j) {
      y[r * n + j] = e[j] / s;
    }
  }
}

void masked_row_shared_out(const Exec& exec, std::int64_t n, float scale, Span<const float> x,
                           Span<const std::uint8_t> mask, Span<float> y) {
  host::masked_softmax(exec, n, scale, x, mask, y);
  for (std::int64_t r = 0; r < numel(x) / n; ++r) {
    const auto first = static_cast<std::size_t>(r * n), count = static_cast<std::size_t>(n);
    const auto row = mask.subspan(first, count);
    if (std::ranges::find(row, 0) == row.end()) {
      std::ranges::fill(y.subspan(first, count), 1.0F / static_cast<float>(n));
    }
  }
}

void sink_without_gradient(const Exec& exec, std::int64_t positions, std::int64_t n, float scale,
                           Span<const float> dy, Span<const float> y, Span<const float> sink_share,
                           Span<float> dx, Span<float> d_sink) {
  host::sink_softmax_backward(exec, positions, n, scale, dy, y, sink_share, dx, d_sink);
  std::ranges::fill(d_sink, 0.0F);
}

void eps_outside_root(const Exec& exec, std::int64_t n, float eps, Span<const float> x,
                      Span<const float> gain, Span<float> y, Span<float> deviation) {
  host::rms_norm(exec, n, eps, x, gain, y, deviation);
  for (std::int64_t r = 0; r < numel(deviation); ++r) {
    const auto in = [&](std::int64_t j) { return x[r * n + j]; };
    const float s = sum_in_blocks(n, [&](std::int64_t j) { return in(j)*in(j); });
    const float root = std::sqrt(s / static_cast<float>(n)) + eps;
    deviation[r] = root;
    for (std::int64_t j = 0; j < n; ++j) {
      y[r * n + j] = in(j) / root * gain[j];
    }
  }
}

void max_of_own_columns(const Exec& exec, const VocabularyPart& part, Span<const float> logits,
                        Span<const std::uint32_t> largest, Span<const std::int32_t> targets,
                        Span<float> exp_sum, Span<float> shifted_sum,
                        Span<std::uint32_t> target_bits) {
  std::vector<std::uint32_t> own(largest.size());
  host::cross_entropy_max(exec, part, logits, own);
  host::cross_entropy_sum(exec, part, logits, own, targets, exp_sum, shifted_sum, target_bits);
}

void smoothing_over_all_columns(const Exec& exec, const CrossEntropyOptions& options,
                                std::int64_t size, int ranks, Span<const std::uint32_t> largest,
                                Span<const std::int32_t> targets, Span<const float> exp_sums,
                                Span<const float> shifted_sums,
                                Span<const std::uint32_t> target_bits, Span<float> loss,
                                Span<float> total, Span<float> log_total) {
  CrossEntropyOptions wrong = options;  // c = label_smoothing, without the factor size / (size - 1)
  wrong.label_smoothing *= static_cast<double>(size - 1) / static_cast<double>(size);
  host::cross_entropy_loss(exec, wrong, size, ranks, largest, targets, exp_sums, shifted_sums,
                           target_bits, loss, total, log_total);
}

void no_z_loss_gradient(const Exec& exec, const VocabularyPart& part,
                        const CrossEntropyOptions& options, Span<const float> d_loss,
                        Span<const float> logits, Span<const std::uint32_t> largest,
                        Span<const std::int32_t> targets, Span<const float> total,
                        Span<const float> log_total, Span<float> d_logits) {
  CrossEntropyOptions wrong = options;
  wrong.z_weight = 0;
  host::cross_entropy_backward(exec, part, wrong, d_loss, logits, largest, targets, total,
                               log_total, d_logits);
}

void counts_from_zero(const Exec& exec, const DropoutDraw& draw, std::int64_t columns,
                      double probability, Span<const float> x, Span<const float> bias,
                      Span<const float> residual, Span<float> y) {
  host::bias_dropout(exec, {draw.seed, draw.step, 0}, columns, probability, x, bias, residual, y);
}

void weight_overwritten(const Exec& exec, std::int64_t tokens, std::int64_t outputs,
                        std::int64_t inputs, Span<const float> dy, Span<const float> x,
                        Span<float> weight_grad) {
  std::ranges::fill(weight_grad, 0.0F);
  host::weight_grad(exec, tokens, outputs, inputs, dy, x, weight_grad);
}

}  // namespace

std::function<void(OpCall&)> wrong_operation(std::string_view fault, std::string_view operation) {
  struct Row {
    std::string_view fault, operation;
    OpFunction calls;
  };
  static const Row rows[] = {
      {"swiglu-slope-is-sigmoid", "swiglu_backward", calls_of_swiglu_backward(slope_is_sigmoid)},
      {"swiglu-held-at-one-end", "swiglu", calls_of_swiglu(held_at_one_end)},
      {"causal-mask-off-by-one", "causal_softmax", calls_of_causal_softmax(mask_off_by_one)},
      {"masked-row-shared-out", "masked_softmax", calls_of_masked_softmax(masked_row_shared_out)},
      {"sink-gradient-left-out", "sink_softmax_backward",
       calls_of_sink_softmax_backward(sink_without_gradient)},
      {"vocabulary-max-of-own-columns", "cross_entropy_sum",
       calls_of_cross_entropy_sum(max_of_own_columns)},
      {"smoothing-over-all-columns", "cross_entropy_loss",
       calls_of_cross_entropy_loss(smoothing_over_all_columns)},
      {"z-loss-gradient-left-out", "cross_entropy_backward",
       calls_of_cross_entropy_backward(no_z_loss_gradient)},
      {"rms-eps-outside-root", "rms_norm", calls_of_rms_norm(eps_outside_root)},
      {"dropout-counts-from-zero", "bias_dropout", calls_of_bias_dropout(counts_from_zero)},
      {"weight-gradient-overwritten", "weight_grad", calls_of_weight_grad(weight_overwritten)}};
  for (const Row& row : rows) {
    if (row.fault == fault && row.operation == operation) return row.calls;
  }
  return {};
}

}  // namespace zeroproof::verification
