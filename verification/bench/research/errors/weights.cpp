// Dropout, sums over rows and gradients of weights, compared with their formulas.

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "cuda/host/operations.hpp"
#include "verification/bench/research/errors/batch.hpp"

namespace zeroproof::errors {
namespace {

namespace h = cuda::host;

constexpr std::int64_t rows = 64, columns = 96, elements = rows * columns;
constexpr double probability = 0.3;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A kept element. The mask is drawn, so it is read from the results [Fusion:dropout].
Bounded kept(const Bounded& x) { return x * rounded(1 / (1 - probability)); }

void bias_dropout(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), bias = batch.numbers(columns);
  const std::vector<float> residual = batch.numbers(elements);
  std::vector<float> y(elements), mask(elements);
  const DropoutDraw draw{batch.word(), 3, 0};
  h::bias_dropout(batch.exec, draw, columns, probability, x, bias, residual, y);
  h::bias_dropout_backward(batch.exec, draw, probability, std::vector<float>(elements, 1.0F), mask);
  for (std::int64_t i = 0; i < elements; ++i) {
    const Bounded d =
        mask[at(i)] == 0 ? Bounded{} : kept(given(x[at(i)]) + given(bias[at(i % columns)]));
    batch.of("y").look(d + given(residual[at(i)]), y[at(i)]);
  }
}

void bias_dropout_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements);
  std::vector<float> dx(elements);
  h::bias_dropout_backward(batch.exec, {batch.word(), 3, 0}, probability, dy, dx);
  for (std::int64_t i = 0; i < elements; ++i) {
    batch.of("dx").look(dx[at(i)] == 0 ? Bounded{} : kept(given(dy[at(i)])), dx[at(i)]);
  }
}

void column_sum(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements);
  std::vector<float> sums(columns);
  h::column_sum(batch.exec, x, sums);
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto term = [&](std::int64_t r) { return given(x[at(r * columns + j)]); };
    batch.of("sums").look(sum(rows, term), sums[at(j)]);
  }
}

constexpr std::int64_t tokens = 24, outputs = 32, inputs = 48;

template <class T, class Implementation>
void weight_grad(Batch& batch, const Implementation& implementation) {
  const auto narrowed = [&](std::int64_t count) {
    std::vector<T> values;
    for (const float x : batch.numbers(count)) {
      if constexpr (std::is_same_v<T, float>) {
        values.push_back(x);
      } else {
        values.push_back(to_bf16(x));
      }
    }
    return values;
  };
  const std::vector<T> dy = narrowed(tokens * outputs), x = narrowed(tokens * inputs);
  const std::vector<float> before = batch.numbers(outputs * inputs);
  std::vector<float> after = before;
  implementation(batch.exec, tokens, outputs, inputs, Span<const T>(dy), Span<const T>(x),
                 Span<float>(after));
  const auto number = [](T value) {
    if constexpr (std::is_same_v<T, float>) {
      return given(value);
    } else {
      return given(to_float(value));
    }
  };
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      const auto term = [&](std::int64_t t) {
        return number(dy[at(t * outputs + o)]) * number(x[at(t * inputs + i)]);
      };
      const std::size_t k = at(o * inputs + i);
      batch.of("weight_grad").look(given(before[k]) + sum(tokens, term), after[k]);
    }
  }
}

}  // namespace

std::vector<Measured> measured_weights() {
  return {
      {"bias_dropout", elements, bias_dropout},
      {"bias_dropout_backward", elements, bias_dropout_backward},
      {"column_sum", elements, column_sum},
      {"weight_grad", outputs * inputs, [](Batch& b) { weight_grad<float>(b, h::weight_grad); }},
      {"weight_grad_bf16", outputs * inputs,
       [](Batch& b) { weight_grad<bf16>(b, h::weight_grad_bf16); }}};
}

}  // namespace zeroproof::errors
