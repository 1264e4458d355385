// A whole AdamW step of a user: all ranks at once, from the gradients to the parameters.

#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "zeroproof_plugin.h"

namespace {

/// Sums of fp64 without any rounding; their value is rounded once. The parts do not overlap, the largest comes last.
struct ExactSum {
  std::vector<double> parts;
  void add(double x) {
    std::size_t kept = 0;
    for (double y : parts) {
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double high = x + y, low = y - (high - x);
      if (low != 0) parts[kept++] = low;
      x = high;
    }
    parts.resize(kept);
    parts.push_back(x);
  }
  double value() const {
    if (parts.empty()) return 0;
    std::size_t i = parts.size() - 1;
    double high = parts[i], low = 0;
    while (i > 0 && low == 0) {
      const double x = high, y = parts[--i];
      high = x + y;
      low = y - (high - x);
    }
    // Halfway between two numbers: the remainder decides.
    const bool more = i > 0 && std::signbit(low) == std::signbit(parts[i - 1]);
    const double twice = high + 2 * low;
    return low != 0 && more && twice - high == 2 * low ? twice : high;
  }
};

template <class T>
T* data(const zeroproof_call* call, const char* name) {
  return static_cast<T*>(zeroproof_find_operand(call, name)->tensor.data);
}

uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return x != x ? 0x7FFF : static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// The sum over micro-batches [first, end) as a tree: the left part has the largest power of two below their number.
float tree_sum(const float* leaf, int64_t stride, int64_t first, int64_t end) {
  if (end - first == 1) return leaf[first * stride];
  int64_t left = 1;
  while (2 * left < end - first) left *= 2;
  return tree_sum(leaf, stride, first, first + left) + tree_sum(leaf, stride, first + left, end);
}

/// The squares of a chunk of 1024 elements, in 32 lanes that are folded.
double chunk_sum(const float* x, int64_t numel) {
  double lane[32] = {};
  for (int64_t i = 0; i < numel; ++i) lane[i % 32] += static_cast<double>(x[i]) * x[i];
  for (int width = 16; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

int32_t step(const zeroproof_call* call) {
  const auto scalar = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const auto* leaf = data<float>(call, "leaf_grad");
  const auto* tensors = data<uint64_t>(call, "tensors");
  const auto* shards = data<uint64_t>(call, "shards");
  float *sum = data<float>(call, "grad_sum"), *master = data<float>(call, "master");
  float *exp_avg = data<float>(call, "exp_avg"), *exp_avg_sq = data<float>(call, "exp_avg_sq");
  auto* param = data<uint16_t>(call, "param");
  const int64_t micro_batches = zeroproof_integer(call, "micro_batches", 0);
  const int64_t padded_numel = zeroproof_find_operand(call, "param")->tensor.shape[0];
  const int64_t num_tensors = zeroproof_find_operand(call, "tensors")->tensor.shape[0];
  const int64_t num_shards = zeroproof_find_operand(call, "shards")->tensor.shape[0];
  float inv_scale = scalar("scalar.inv_scale");
#ifdef DIVIDED_TWICE
  inv_scale /= static_cast<float>(micro_batches);  // it already contains the mean
#endif

  std::vector<float> grad(static_cast<size_t>(padded_numel));
  bool found_inf = false;
  for (int64_t k = 0; k < num_tensors; ++k) {
    const auto begin = static_cast<int64_t>(tensors[4 * k]),
               end = begin + static_cast<int64_t>(tensors[4 * k + 1]);
    for (int64_t i = begin; i < end; ++i) {
      sum[i] = tree_sum(leaf + i, padded_numel, 0, micro_batches);
      grad[i] = sum[i] * inv_scale;
      found_inf |= !std::isfinite(grad[i]);
    }
  }
  *data<uint32_t>(call, "found_inf") = found_inf;
  if (found_inf) return 0;  // all others are unchanged

  ExactSum squares;  // of every rank, and then of all ranks
  for (int64_t s = 0; s < num_shards; ++s) {
    auto begin = static_cast<int64_t>(shards[3 * s + 1]),
         end = begin + static_cast<int64_t>(shards[3 * s + 2]);
#ifdef CHUNK_TWICE
    if (begin > 0) begin -= 1024;  // reaches into the rank before
#endif
    for (int64_t i = begin; i < end; i += 1024) squares.add(chunk_sum(&grad[i], 1024));
  }
  const double norm = std::sqrt(squares.value()), max_norm = *data<double>(call, "max_norm");
  const double quotient = max_norm / (norm + 1e-6);
  const float clip_coef = max_norm == 0 ? 1.0F : static_cast<float>(quotient < 1 ? quotient : 1);
  *data<double>(call, "grad_norm") = norm;
  *data<float>(call, "clip_coef") = clip_coef;

  const float beta1 = scalar("beta1"), one_minus_beta1 = scalar("scalar.one_minus_beta1");
  const float beta2 = scalar("beta2"), one_minus_beta2 = scalar("scalar.one_minus_beta2");
  const float root = scalar("scalar.sqrt_bias_correction2"), step_size = scalar("scalar.step_size");
  const float eps = scalar("scalar.eps"), decay = scalar("scalar.lr_weight_decay");
  const bool has_decay = zeroproof_integer(call, "scalar.has_decay", 0) != 0;
  for (int64_t k = 0; k < num_tensors; ++k) {
    const auto begin = static_cast<int64_t>(tensors[4 * k]),
               end = begin + static_cast<int64_t>(tensors[4 * k + 1]);
    for (int64_t i = begin; i < end; ++i) {
      const float g = grad[i] * clip_coef;
      exp_avg[i] = beta1 * exp_avg[i] + one_minus_beta1 * g;
      exp_avg_sq[i] = beta2 * exp_avg_sq[i] + one_minus_beta2 * (g * g);
      const float a = step_size * (exp_avg[i] / (std::sqrt(exp_avg_sq[i]) / root + eps));
      master[i] -= has_decay ? a + decay * master[i] : a;
      param[i] = to_bf16(master[i]);
    }
  }
  *data<uint64_t>(call, "applied_steps") += 1;
  return 0;
}

/// Plain AdamW with bf16 parameters and fp32 leaves, one group of tensors, and no loss scale.
int32_t supports(const zeroproof_call* call) {
  for (const char* zero : {"rule", "norm_form", "amsgrad", "maximize", "grad_sum", "on_nonfinite",
                           "missing_grad", "param_rounding", "scaler.kind"}) {
    if (zeroproof_integer(call, zero, 1) == 0) continue;
    std::snprintf(call->message, call->message_size, "%s is not 0", zero);
    return 0;
  }
  const auto groups = [&](const char* name) {
    return zeroproof_find_operand(call, name)->tensor.shape[0];
  };
  if (groups("step_scalars") != 1 || groups("max_norm") != 1) return 0;
  const zeroproof_dtype leaf = zeroproof_find_operand(call, "leaf_grad")->tensor.dtype,
                        param = zeroproof_find_operand(call, "param")->tensor.dtype;
  return zeroproof_real(call, "clip_value", 1) == 0 && leaf.bits == 32 &&
         param.code == ZEROPROOF_BFLOAT;
}

constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "whole", nullptr, 0, supports, step, 0, 0};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
