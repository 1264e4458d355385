#pragma once
// Activations element by element, literally as in the contract.

#include <cstddef>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace zeroproof::tests {

inline float elementary(ElementaryExpFn* function, float x) {
  float y = 0;
  function({}, {&x, 1}, {&y, 1});
  return y;
}

inline std::vector<float> literal_bias_gelu(std::int64_t columns, const std::vector<float>& x,
                                            const std::vector<float>& bias) {
  std::vector<float> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float u = x[i] + bias[i % static_cast<std::size_t>(columns)];
    const float a = 0.79788456F * u;
    const float h = u * u;
    const float c = 0.044715F * h;
    const float d = 1 + c;
    const float e = a * d;
    const float p = 1 + elementary(reference::elementary_tanh, e);
    const float q = 0.5F * u;
    y.push_back(q * p);
  }
  return y;
}

/// swiglu with bias and weights, and its gradients.
struct LiteralSwiglu {
  std::vector<float> y, dx, d_weight;

  LiteralSwiglu(std::int64_t columns, float limit, const std::vector<float>& x,
                const std::vector<float>& bias, const std::vector<float>& weight,
                const std::vector<float>& dy)
      : dx(x.size()) {
    const auto n = static_cast<std::size_t>(columns);
    for (std::size_t r = 0; r < weight.size(); ++r) {
      std::vector<float> sums(8, 0.0F);
      for (std::size_t j = 0; j < n; ++j) {
        const float u0 = x[2 * n * r + j] + bias[j], v0 = x[2 * n * r + n + j] + bias[n + j];
        float u = u0, v = v0;
        if (limit > 0) {
          if (u > limit) u = limit;
          if (v > limit) v = limit;
          if (v < -limit) v = -limit;
        }
        const float s = elementary(reference::elementary_sigmoid, u);
        const float h = u * s;
        const float f = h * v;
        y.push_back(f * weight[r]);
        const float g = dy[n * r + j] * weight[r];
        const float e = 1 - s;
        const float b = u * e;
        const float c = 1 + b;
        const float d = s * c;
        const float p = g * v;
        const bool stopped = limit > 0;
        dx[2 * n * r + j] = stopped && u0 > limit ? 0 : p * d;
        dx[2 * n * r + n + j] = stopped && (v0 > limit || v0 < -limit) ? 0 : g * h;
        std::size_t block = 0;
        while (n * (block + 1) / 8 <= j) ++block;
        const float term = dy[n * r + j] * f;
        sums[block] = sums[block] + term;
      }
      const float left = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      const float right = (sums[4] + sums[5]) + (sums[6] + sums[7]);
      d_weight.push_back(left + right);
    }
  }
};

}  // namespace zeroproof::tests
