#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "reference/layers/activation_rows.hpp"
#include "reference/layers/eight_blocks.hpp"
#include "reference/layers/scalar_math.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// One of the two gated activations with a sigmoid [Fusion:gated]: f = u * sigmoid(a) * w. The
/// names are those of the contract; swiglu has a = u and w = v, quick_geglu a = 1.702 u and w = v +
/// offset.
struct Gated {
  Block u;  ///< the gate
  Block a;  ///< the argument of the sigmoid
  Block w;  ///< the linear factor
  Block s;  ///< the sigmoid
  Block h;  ///< gate times sigmoid
  Block f;  ///< the value

  Gated(const Block& gate, const Block& argument, const Block& factor)
      : u(gate), a(argument), w(factor) {
    s = a.unaryExpr(&scalar_math::sigmoid_f32);
    h = u * s;
    f = h * w;
  }

  /// d h / d u: the sigmoid times 1 + a (1 - s).
  Block slope() const {
    const Block e = 1.0F - s;
    const Block b = a * e;
    const Block c = 1.0F + b;
    return s * c;
  }
};

struct GatedViews {
  std::int64_t columns;
  Span<const float> x, bias, weight;
};

ActivationRows check_gated(const char* operation, const GatedViews& in, std::size_t y_numel) {
  const ActivationRows shape = check_rows(operation, in.columns, y_numel);
  check_elements(operation, "x", in.x.size(), 2 * shape.rows * in.columns);
  check_optional_elements(operation, "bias", in.bias.size(), 2 * in.columns);
  check_optional_elements(operation, "weight", in.weight.size(), shape.rows);
  return shape;
}

/// Both halves of x with their bias.
struct Halves {
  Block gate, linear;
};

Halves halves(const GatedViews& in, const Stretch& part) {
  return {part.with_bias(part.gate(in.x), in.bias, 0),
          part.with_bias(part.linear(in.x), in.bias, in.columns)};
}

/// make(halves) is the Gated of a stretch.
template <class Make>
void forward(const char* operation, const GatedViews& in, Span<float> y, const Make& make) {
  for_each_stretch(check_gated(operation, in, y.size()), [&](const Stretch& part) {
    const Gated g = make(halves(in, part));
    part.of(y) = weighted(g.f, in.weight, part.row);
  });
}

/// As forward(); masked(halves, d_gate, d_linear) may set gradients to zero.
template <class Make, class Masked>
void backward(const char* operation, const GatedViews& in, Span<const float> dy, Span<float> dx,
              Span<float> d_weight, const Make& make, const Masked& masked) {
  const ActivationRows shape = check_gated(operation, in, dy.size());
  check_same_numel(operation, "x", in.x.size(), "dx", dx.size());
  check_same_numel(operation, "weight", in.weight.size(), "d_weight", d_weight.size());
  std::vector<float> terms(shape.columns);  // dy * f of one row
  for_each_stretch(shape, [&](const Stretch& part) {
    const Halves x = halves(in, part);
    const Gated at = make(x);
    const Block g = weighted(part.of(dy), in.weight, part.row);
    const Block d = at.slope();
    const Block p = g * at.w;
    Block d_gate = p * d;
    Block d_linear = g * at.h;
    masked(x, d_gate, d_linear);
    part.gate(dx) = d_gate;
    part.linear(dx) = d_linear;
    if (d_weight.empty()) return;
    as_array(reference::part(Span<float>(terms), part.first, part.count)) = part.of(dy) * at.f;
    if (part.first + part.count < part.columns) return;
    d_weight[part.row] = sum_in_blocks(part.columns, [&](std::int64_t j) { return terms[j]; });
  });
}

auto quick_gelu_of(float offset) {
  return [offset](const Halves& x) {
    const Block a = quick_gelu_scale * x.gate;
    const Block w = x.linear + offset;
    return Gated(x.gate, a, w);
  };
}

/// The limits of [Fusion:clamped]: the gate from above, the linear part on both sides. A NaN passes
/// through.
auto silu_of(float limit) {
  return [limit](const Halves& x) {
    Block u = x.gate, v = x.linear;
    if (limit > 0) {
      u = (u > limit).select(limit, u);
      v = (v > limit).select(limit, (v < -limit).select(-limit, v));
    }
    return Gated(u, u, v);
  };
}

void check_limit(const char* operation, float limit) {
  ZP_CHECK(limit >= 0 && limit <= std::numeric_limits<float>::max(), ErrorCode::invalid_argument,
           std::string(operation) + ": the limit is " + text(limit),
           "it is an upper bound of magnitudes", "pass a positive number, or 0 for no limit");
}

}  // namespace

void quick_geglu(const Exec&, std::int64_t columns, float offset, Span<const float> x,
                 Span<const float> bias, Span<const float> weight, Span<float> y) {
  forward("quick_geglu", {columns, x, bias, weight}, y, quick_gelu_of(offset));
}

void quick_geglu_backward(const Exec&, std::int64_t columns, float offset, Span<const float> dy,
                          Span<const float> x, Span<const float> bias, Span<const float> weight,
                          Span<float> dx, Span<float> d_weight) {
  backward("quick_geglu_backward", {columns, x, bias, weight}, dy, dx, d_weight,
           quick_gelu_of(offset), [](const Halves&, Block&, Block&) {});
}

void swiglu(const Exec&, std::int64_t columns, float limit, Span<const float> x,
            Span<const float> bias, Span<const float> weight, Span<float> y) {
  check_limit("swiglu", limit);
  forward("swiglu", {columns, x, bias, weight}, y, silu_of(limit));
}

void swiglu_backward(const Exec&, std::int64_t columns, float limit, Span<const float> dy,
                     Span<const float> x, Span<const float> bias, Span<const float> weight,
                     Span<float> dx, Span<float> d_weight) {
  check_limit("swiglu_backward", limit);
  backward("swiglu_backward", {columns, x, bias, weight}, dy, dx, d_weight, silu_of(limit),
           [&](const Halves& before, Block& d_gate, Block& d_linear) {
             if (!(limit > 0)) return;
             d_gate = (before.gate > limit).select(0.0F, d_gate);
             d_linear = (before.linear > limit || before.linear < -limit).select(0.0F, d_linear);
           });
}

}  // namespace zeroproof::reference
