// Activations and their gradients, compared with their formulas.

#include "cuda/host/operations.hpp"

#include "verification/bench/research/errors/batch.hpp"

namespace zeroproof::errors {
namespace {

namespace h = cuda::host;

constexpr std::int64_t rows = 32, columns = 96, elements = rows * columns;
constexpr float offset = 1, limit = 3;

Bounded one() { return given(1); }

// [Fusion:gelu]

struct Gelu {
  Bounded u, h, t, p, q;

  explicit Gelu(const Bounded& argument) : u(argument) {
    h = u * u;
    t = tanh((given(gelu_scale) * u) * (one() + given(gelu_cubic) * h));
    p = one() + t;
    q = given(0.5F) * u;
  }
  Bounded value() const { return q * p; }
  Bounded slope() const {  // [Fusion:gelu_backward]
    const Bounded r = (one() - t * t) * (given(gelu_scale) + given(gelu_slope_cubic) * h);
    return given(0.5F) * p + q * r;
  }
};

// [Fusion:gated]

struct Gated {
  Bounded u, a, w, s, h, f;

  Gated(const Bounded& gate, const Bounded& argument, const Bounded& factor)
      : u(gate), a(argument), w(factor), s(sigmoid(a)), h(u * s), f(h * w) {}
  Bounded slope() const { return s * (one() + a * (one() - s)); }
};

/// A clamped number is exact, and a number near its limit is no further from it than before
/// [Fusion:clamped].
Bounded held(Bounded x, bool below_too) {
  if (x.value > limit) x.value = limit;
  if (below_too && x.value < -limit) x.value = -limit;
  return x;
}

Gated quick_of(const Bounded& u, const Bounded& v) {
  return {u, given(quick_gelu_scale) * u, v + given(offset)};
}
Gated swi_of(const Bounded& u, const Bounded& v) {
  return {held(u, false), held(u, false), held(v, true)};
}

/// Inputs of a gated activation with bias and weight.
struct Inputs {
  std::vector<float> x, bias, weight, dy;

  explicit Inputs(Batch& batch)
      : x(batch.numbers(2 * elements)),
        bias(batch.numbers(2 * columns)),
        weight(batch.positive(rows)),
        dy(batch.numbers(elements)) {}
  Bounded gate(std::int64_t r, std::int64_t j) const {
    return given(x[2 * columns * r + j]) + given(bias[j]);
  }
  Bounded linear(std::int64_t r, std::int64_t j) const {
    return given(x[2 * columns * r + columns + j]) + given(bias[columns + j]);
  }
};

/// body(row, column, index of the element)
template <class Body>
void for_elements(const Body& body) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j)
      body(r, j, static_cast<std::size_t>(r * columns + j));
  }
}

void bias_gelu(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), bias = batch.numbers(columns);
  std::vector<float> y(elements);
  h::bias_gelu(batch.exec, columns, x, bias, y);
  Figure& figure = batch.of("y");
  for_elements([&](std::int64_t, std::int64_t j, std::size_t i) {
    figure.look(Gelu(given(x[i]) + given(bias[j])).value(), y[i]);
  });
}

void bias_gelu_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), x = batch.numbers(elements);
  const std::vector<float> bias = batch.numbers(columns);
  std::vector<float> dx(elements);
  h::bias_gelu_backward(batch.exec, columns, dy, x, bias, dx);
  Figure& figure = batch.of("dx");
  for_elements([&](std::int64_t, std::int64_t j, std::size_t i) {
    figure.look(given(dy[i]) * Gelu(given(x[i]) + given(bias[j])).slope(), dx[i]);
  });
}

void geglu(Batch& batch) {
  const Inputs in(batch);
  std::vector<float> y(elements);
  h::geglu(batch.exec, columns, in.x, in.bias, y);
  Figure& figure = batch.of("y");
  for_elements([&](std::int64_t r, std::int64_t j, std::size_t i) {
    figure.look(Gelu(in.gate(r, j)).value() * in.linear(r, j), y[i]);
  });
}

/// Both halves of dx, in rows of 2 * columns.
void look_at_halves(Figure& figure, const std::vector<float>& dx, std::int64_t r, std::int64_t j,
                    const Bounded& gate, const Bounded& linear) {
  figure.look(gate, dx[2 * columns * r + j]);
  figure.look(linear, dx[2 * columns * r + columns + j]);
}

void geglu_backward(Batch& batch) {
  const Inputs in(batch);
  std::vector<float> dx(2 * elements);
  h::geglu_backward(batch.exec, columns, in.dy, in.x, in.bias, dx);
  Figure& figure = batch.of("dx");
  for_elements([&](std::int64_t r, std::int64_t j, std::size_t i) {
    const Gelu g(in.gate(r, j));
    const Bounded dy = given(in.dy[i]);
    look_at_halves(figure, dx, r, j, (dy * in.linear(r, j)) * g.slope(), dy * g.value());
  });
}

template <class Forward, class Make>
void gated(Batch& batch, float setting, const Forward& forward, const Make& make) {
  const Inputs in(batch);
  std::vector<float> y(elements);
  forward(batch.exec, columns, setting, in.x, in.bias, in.weight, y);
  Figure& figure = batch.of("y");
  for_elements([&](std::int64_t r, std::int64_t j, std::size_t i) {
    const Gated g = make(in.gate(r, j), in.linear(r, j));
    figure.look(g.f * given(in.weight[r]), y[i]);
  });
}

/// beyond(u): whether its gradient is taken away; an argument that is as near to the limit as its error is not judged.
template <class Backward, class Make, class Beyond>
void gated_backward(Batch& batch, float setting, const Backward& backward, const Make& make,
                    const Beyond& beyond) {
  const Inputs in(batch);
  std::vector<float> dx(2 * elements), d_weight(rows);
  backward(batch.exec, columns, setting, in.dy, in.x, in.bias, in.weight, dx, d_weight);
  Figure& figure = batch.of("dx");
  std::vector<Bounded> terms(elements);
  for_elements([&](std::int64_t r, std::int64_t j, std::size_t i) {
    const Bounded u = in.gate(r, j), v = in.linear(r, j), dy = given(in.dy[i]);
    const Gated at = make(u, v);
    const Bounded g = dy * given(in.weight[r]);
    terms[i] = dy * at.f;
    const auto near = [](const Bounded& x) {
      return std::fabs(x.magnitude() - limit) <= 2 * x.error;
    };
    if (near(u) || near(v)) return;
    const Bounded zero;
    look_at_halves(figure, dx, r, j, beyond(u, false) ? zero : (g * at.w) * at.slope(),
                   beyond(v, true) ? zero : g * at.h);
  });
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto of_row = [&](std::int64_t j) { return terms[r * columns + j]; };
    batch.of("d_weight").look(sum(columns, of_row), d_weight[r]);
  }
}

void squared_relu(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), weight = batch.positive(rows);
  std::vector<float> y(elements);
  h::squared_relu(batch.exec, columns, x, weight, y);
  Figure& figure = batch.of("y");
  for_elements([&](std::int64_t r, std::int64_t, std::size_t i) {
    const Bounded m = given(std::max(x[i], 0.0F));
    figure.look((m * m) * given(weight[r]), y[i]);
  });
}

void squared_relu_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), x = batch.numbers(elements);
  const std::vector<float> weight = batch.positive(rows);
  std::vector<float> dx(elements), d_weight(rows);
  h::squared_relu_backward(batch.exec, columns, dy, x, weight, dx, d_weight);
  Figure& figure = batch.of("dx");
  const auto m = [&](std::size_t i) { return given(std::max(x[i], 0.0F)); };
  for_elements([&](std::int64_t r, std::int64_t, std::size_t i) {
    figure.look((given(2) * m(i)) * (given(dy[i]) * given(weight[r])), dx[i]);
  });
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto of_row = [&](std::int64_t j) {
      const auto i = static_cast<std::size_t>(r * columns + j);
      return given(dy[i]) * (m(i) * m(i));
    };
    batch.of("d_weight").look(sum(columns, of_row), d_weight[r]);
  }
}

}  // namespace

std::vector<Measured> measured_activations() {
  constexpr std::int64_t few = 8;  // more than are as near to a limit as their error
  const auto never = [](const Bounded&, bool) { return false; };
  const auto beyond = [](const Bounded& x, bool below_too) {
    return x.value > limit || (below_too && x.value < -limit);
  };
  return {
      {"bias_gelu", elements, bias_gelu},
      {"bias_gelu_backward", elements, bias_gelu_backward},
      {"geglu", elements, geglu},
      {"geglu_backward", 2 * elements, geglu_backward},
      {"quick_geglu", elements, [](Batch& b) { gated(b, offset, h::quick_geglu, quick_of); }},
      {"quick_geglu_backward", 2 * elements - few,
       [never](Batch& b) { gated_backward(b, offset, h::quick_geglu_backward, quick_of, never); }},
      {"swiglu", elements, [](Batch& b) { gated(b, limit, h::swiglu, swi_of); }},
      {"swiglu_backward", 2 * elements - few,
       [beyond](Batch& b) { gated_backward(b, limit, h::swiglu_backward, swi_of, beyond); }},
      {"squared_relu", elements, squared_relu},
      {"squared_relu_backward", elements, squared_relu_backward}};
}

}  // namespace zeroproof::errors
