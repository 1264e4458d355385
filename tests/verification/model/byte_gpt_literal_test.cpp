// The model against an independent implementation of its formulas.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/verification/model/byte_gpt_support.hpp"
#include "verification/model/portable_math.hpp"

namespace byte_gpt_literal_test {

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

// The forward pass in plain loops: an independent implementation of byte_gpt.hpp, with every sum in
// the order of R18, so that the loss must have the same bits. exp, tanh and log are the project's,
// as in R18.

/// R18: eight blocks, each from +0 in increasing order, then the tree. term(i) counts from i = 0 to
/// end - 1 <= n - 1.
template <class Real, class Term>
Real sum_of(std::size_t n, std::size_t end, const Term& term) {
  Real s[8] = {};
  for (std::size_t b = 0; b < 8; ++b) {
    for (std::size_t i = n * b / 8; i < n * (b + 1) / 8 && i < end; ++i) s[b] = s[b] + term(i);
  }
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}
template <class Real, class Term>
Real sum_of(std::size_t n, const Term& term) {
  return sum_of<Real>(n, n, term);
}

template <class Real>
using Row = std::vector<Real>;
template <class Real>
using Rows = std::vector<Row<Real>>;

/// e^(x - max) of the first `seen`, and their sum.
template <class Real>
Real exponentials(Row<Real>& row, std::size_t seen) {
  const Real max = *std::max_element(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(seen));
  for (std::size_t j = 0; j < seen; ++j) row[j] = exp_real(row[j] - max);
  return sum_of<Real>(row.size(), seen, [&](std::size_t j) { return row[j]; });
}

template <class Real>
struct LiteralModel {
  const Model<Real>& model;

  Real at(const std::string& name, std::size_t index) const {
    for (const TensorSlot& slot : model.layout.tensors()) {
      if (slot.name == name) return model.params[static_cast<std::size_t>(slot.begin) + index];
    }
    return std::numeric_limits<Real>::quiet_NaN();
  }

  Rows<Real> norm(const Rows<Real>& x, const std::string& name) const {
    Rows<Real> y = x;
    for (Row<Real>& row : y) {
      const auto n = static_cast<Real>(row.size());
      if (model.shape.swiglu) {
        const Real square =
            sum_of<Real>(row.size(), [&](std::size_t j) { return row[j] * row[j]; }) / n;
        const Real root = std::sqrt(square + Real(1e-5));
        for (std::size_t j = 0; j < row.size(); ++j) row[j] = row[j] / root * at(name + ".gain", j);
        continue;
      }
      const Real mean = sum_of<Real>(row.size(), [&](std::size_t j) { return row[j]; }) / n;
      for (Real& value : row) value = value - mean;
      const Real variance =
          sum_of<Real>(row.size(), [&](std::size_t j) { return row[j] * row[j]; }) / n;
      const Real deviation = std::sqrt(variance + Real(1e-5));
      for (std::size_t j = 0; j < row.size(); ++j)
        row[j] = row[j] / deviation * at(name + ".gain", j) + at(name + ".bias", j);
    }
    return y;
  }

  /// weight(k, j): from input k to output j
  template <class Weight>
  static Rows<Real> product(const Rows<Real>& x, std::size_t outputs, const Weight& weight) {
    Rows<Real> y(x.size(), Row<Real>(outputs));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < outputs; ++j)
        y[i][j] = sum_of<Real>(x[i].size(), [&](std::size_t k) { return x[i][k] * weight(k, j); });
    }
    return y;
  }

  Rows<Real> linear(const Rows<Real>& x, const std::string& name, int size) const {
    const auto outputs = static_cast<std::size_t>(size);
    Row<Real> weights, biases;  // read by name once
    for (std::size_t i = 0; i < x[0].size() * outputs; ++i)
      weights.push_back(at(name + ".weight", i));
    for (std::size_t j = 0; j < outputs; ++j) biases.push_back(at(name + ".bias", j));
    Rows<Real> y =
        product(x, outputs, [&](std::size_t k, std::size_t j) { return weights[k * outputs + j]; });
    for (Row<Real>& row : y) {
      for (std::size_t j = 0; j < outputs; ++j) row[j] = row[j] + biases[j];
    }
    return y;
  }

  Rows<Real> head(const Rows<Real>& x) const {
    const auto width = static_cast<std::size_t>(model.shape.width);
    return product(x, vocabulary, [&](std::size_t k, std::size_t token) {
      return model.shape.tied ? at("token_embedding.weight", token * width + k)
                              : at("head.weight", k * vocabulary + token);
    });
  }

  Rows<Real> attention(const Rows<Real>& x, const std::string& name) const {
    const int width = model.shape.width;
    const auto head_width = static_cast<std::size_t>(width / model.shape.heads);
    const Rows<Real> q = linear(x, name + ".query", width);
    const Rows<Real> k = linear(x, name + ".key", width);
    const Rows<Real> v = linear(x, name + ".value", width);
    Rows<Real> mixed(x.size(), Row<Real>(x[0].size()));
    for (std::size_t first = 0; first < x[0].size(); first += head_width) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        Row<Real> weights(x.size());
        for (std::size_t s = 0; s <= i; ++s) {
          const Real score = sum_of<Real>(
              head_width, [&](std::size_t c) { return q[i][first + c] * k[s][first + c]; });
          const Real root = std::sqrt(static_cast<Real>(head_width));
          weights[s] = model.shape.swiglu ? (Real{1} / root) * score : score / root;
        }
        const Real total = exponentials(weights, i + 1);
        for (std::size_t c = first; c < first + head_width; ++c) {
          mixed[i][c] = sum_of<Real>(x.size(), i + 1,
                                     [&](std::size_t s) { return weights[s] / total * v[s][c]; });
        }
      }
    }
    return linear(mixed, name + ".output", width);
  }

  /// R23 computes it in fp64 for both types, rounded at the end.
  static Real sigmoid(Real x) {
    return static_cast<Real>(1.0 / (1.0 + exp_f64(-static_cast<double>(x))));
  }

  Rows<Real> mlp(const Rows<Real>& x, const std::string& name) const {
    const bool first = name.starts_with("block0.") && model.shape.first_hidden > 0;
    const int hidden = first ? model.shape.first_hidden : model.shape.hidden;
    Rows<Real> u = linear(x, name + ".up", hidden);
    if (model.shape.swiglu) {
      const Rows<Real> gate = linear(x, name + ".gate", hidden);
      for (std::size_t i = 0; i < u.size(); ++i) {
        for (std::size_t j = 0; j < u[i].size(); ++j)
          u[i][j] = gate[i][j] * sigmoid(gate[i][j]) * u[i][j];
      }
      return linear(u, name + ".down", model.shape.width);
    }
    const auto sqrt_2_over_pi = static_cast<Real>(std::sqrt(2 / 3.14159265358979323846));
    for (Row<Real>& row : u) {
      for (Real& value : row) {
        const Real cubic = value * (Real{1} + Real(0.044715) * (value * value));
        value = (Real{0.5} * value) * (Real{1} + tanh_real(sqrt_2_over_pi * cubic));
      }
    }
    return linear(u, name + ".down", model.shape.width);
  }
};

template <class Real>
void add_to(Rows<Real>& x, const Rows<Real>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
  }
}

/// The loss of a position from its logits. With swiglu it is an operation of the contract and
/// rounds to fp32.
double loss_of(const ByteGptShape& shape, Row<float>& row, std::size_t token) {
  const float max = *std::ranges::max_element(row);
  const float target = row[token];
  const float total = exponentials(row, row.size());
  if (!shape.swiglu) return log_f64(double{total}) - (double{target} - double{max});
  return static_cast<float>(log_f64(double{total})) - (target - max);
}
double loss_of(const ByteGptShape&, Row<double>& row, std::size_t token) {
  const double max = *std::ranges::max_element(row);
  const double target = row[token];
  return log_f64(exponentials(row, row.size())) - (target - max);
}

/// The reduction of the losses of positions is in fp64.
template <class Real>
double literal_loss(const Model<Real>& model) {
  const LiteralModel<Real> literal{model};
  const auto tokens = tokens_of(model.shape);
  const auto width = static_cast<std::size_t>(model.shape.width);
  const auto context = static_cast<std::size_t>(model.shape.context);
  Rows<Real> x(context, Row<Real>(width));
  for (std::size_t i = 0; i < context; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      x[i][j] = literal.at("token_embedding.weight", tokens[i] * width + j) +
                literal.at("position_embedding.weight", i * width + j);
    }
  }
  for (int block = 0; block < model.shape.layers; ++block) {
    const std::string name = "block" + std::to_string(block);
    add_to(x, literal.attention(literal.norm(x, name + ".attention_norm"), name + ".attention"));
    add_to(x, literal.mlp(literal.norm(x, name + ".mlp_norm"), name + ".mlp"));
  }
  Rows<Real> logits = literal.head(literal.norm(x, "final_norm"));
  const auto loss = [&](std::size_t i) { return loss_of(model.shape, logits[i], tokens[i + 1]); };
  return sum_of<double>(context, loss) / static_cast<double>(context);
}

template <class Real>
void check_loss(const ByteGptShape& shape) {
  const Model<Real> model = rough_model<Real>(shape);
  CHECK(model.loss() == literal_loss(model));
}

}  // namespace

TEST_CASE("byte_gpt loss: equals the formulas position by position, bit for bit") {
  for (const ByteGptShape& shape : {byte_gpt_tiny, ByteGptShape{1, 4, 2, 3, 5},
                                    ByteGptShape{3, 5, 5, 7, 1}, ByteGptShape{2, 6, 2, 7, 9, true},
                                    byte_gpt_swiglu_tiny, ByteGptShape{1, 4, 2, 3, 5, false, true},
                                    ByteGptShape{3, 4, 2, 3, 5, false, true, 7}, byte_gpt_uneven}) {
    check_loss<double>(shape);
    check_loss<float>(shape);
  }
}

}  // namespace byte_gpt_literal_test
