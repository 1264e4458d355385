#include "reference/layers/activation_rows.hpp"
#include "reference/layers/scalar_math.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// gelu in its tanh form [Fusion:gelu], with the values its slope reuses. The names are those of
/// the contract.
struct Gelu {
  Block h;  ///< u^2
  Block t;  ///< the tanh
  Block p;  ///< 1 + t
  Block q;  ///< u / 2
  Block f;  ///< the value
};

Gelu gelu(const Block& u) {
  Gelu g;
  const Block a = gelu_scale * u;
  g.h = u * u;
  const Block c = gelu_cubic * g.h;
  const Block d = 1.0F + c;
  const Block e = a * d;
  g.t = e.unaryExpr(&scalar_math::tanh_f32);
  g.p = 1.0F + g.t;
  g.q = 0.5F * u;
  g.f = g.q * g.p;
  return g;
}

/// d gelu / d u [Fusion:gelu_backward]: half of 1 + t, and u / 2 times the slope of the tanh.
Block slope(const Gelu& g) {
  const Block k = g.t * g.t;
  const Block l = 1.0F - k;
  const Block m = gelu_slope_cubic * g.h;
  const Block n = gelu_scale + m;
  const Block r = l * n;
  const Block s = g.q * r;
  const Block v = 0.5F * g.p;
  return v + s;
}

ActivationRows check_bias_gelu(const char* operation, std::int64_t columns, Span<const float> x,
                               Span<const float> bias) {
  const ActivationRows shape = check_rows(operation, columns, x.size());
  check_optional_elements(operation, "bias", bias.size(), columns);
  return shape;
}

ActivationRows check_geglu(const char* operation, std::int64_t columns, std::size_t y_numel,
                           Span<const float> x, Span<const float> bias) {
  const ActivationRows shape = check_rows(operation, columns, y_numel);
  check_elements(operation, "x", x.size(), 2 * shape.rows * columns);
  check_optional_elements(operation, "bias", bias.size(), 2 * columns);
  return shape;
}

}  // namespace

void bias_gelu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> bias,
               Span<float> y) {
  const ActivationRows shape = check_bias_gelu("bias_gelu", columns, x, bias);
  check_same_numel("bias_gelu", "x", x.size(), "y", y.size());
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block u = part.with_bias(part.of(x), bias, 0);
    part.of(y) = gelu(u).f;
  });
}

void bias_gelu_backward(const Exec&, std::int64_t columns, Span<const float> dy,
                        Span<const float> x, Span<const float> bias, Span<float> dx) {
  const ActivationRows shape = check_bias_gelu("bias_gelu_backward", columns, x, bias);
  check_same_numel("bias_gelu_backward", "x", x.size(), "dy", dy.size());
  check_same_numel("bias_gelu_backward", "x", x.size(), "dx", dx.size());
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block u = part.with_bias(part.of(x), bias, 0);
    const Block w = slope(gelu(u));
    part.of(dx) = part.of(dy) * w;
  });
}

// The chain rule of [Fusion:gated] for gelu.

void geglu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> bias,
           Span<float> y) {
  const ActivationRows shape = check_geglu("geglu", columns, y.size(), x, bias);
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block u = part.with_bias(part.gate(x), bias, 0);
    const Block v = part.with_bias(part.linear(x), bias, columns);
    part.of(y) = gelu(u).f * v;
  });
}

void geglu_backward(const Exec&, std::int64_t columns, Span<const float> dy, Span<const float> x,
                    Span<const float> bias, Span<float> dx) {
  const ActivationRows shape = check_geglu("geglu_backward", columns, dy.size(), x, bias);
  check_same_numel("geglu_backward", "x", x.size(), "dx", dx.size());
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block u = part.with_bias(part.gate(x), bias, 0);
    const Block v = part.with_bias(part.linear(x), bias, columns);
    const Gelu g = gelu(u);
    const Block w = slope(g);
    const Block a = part.of(dy) * v;
    part.gate(dx) = a * w;
    part.linear(dx) = part.of(dy) * g.f;
  });
}

}  // namespace zeroproof::reference
