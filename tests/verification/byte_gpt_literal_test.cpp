// The model against its formulas, written out a second time.

#include <doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/verification/byte_gpt_support.hpp"

using namespace zeroproof;
using namespace zeroproof::workload;

namespace {

// The forward pass once more, in plain fp64 loops and with libm: a second reading of what byte_gpt.hpp says.
using Rows = std::vector<std::vector<double>>;

struct LiteralModel {
  const Model<double>& model;

  double at(const std::string& name, std::int64_t index) const {
    for (const TensorSlot& slot : model.layout.tensors()) {
      if (slot.name == name) return model.params[static_cast<std::size_t>(slot.begin + index)];
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  Rows norm(const Rows& x, const std::string& name) const {
    Rows y = x;
    for (std::vector<double>& row : y) {
      const auto n = static_cast<double>(row.size());
      double mean = 0;
      double variance = 0;
      for (const double value : row) mean += value / n;
      for (const double value : row) variance += (value - mean) * (value - mean) / n;
      for (std::size_t j = 0; j < row.size(); ++j) {
        const auto k = static_cast<std::int64_t>(j);
        row[j] = (row[j] - mean) / std::sqrt(variance + 1e-5) * at(name + ".gain", k) + at(name + ".bias", k);
      }
    }
    return y;
  }

  Rows linear(const Rows& x, const std::string& name, int outputs, bool bias = true) const {
    Rows y(x.size(), std::vector<double>(static_cast<std::size_t>(outputs)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (int j = 0; j < outputs; ++j) {
        double sum = bias ? at(name + ".bias", j) : 0;
        for (std::size_t k = 0; k < x[i].size(); ++k) {
          sum += x[i][k] * at(name + ".weight", static_cast<std::int64_t>(k) * outputs + j);
        }
        y[i][static_cast<std::size_t>(j)] = sum;
      }
    }
    return y;
  }

  Rows head(const Rows& x) const {
    if (!model.shape.tied) return linear(x, "head", vocabulary, false);
    Rows y(x.size(), std::vector<double>(vocabulary));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (int token = 0; token < vocabulary; ++token) {
        for (int j = 0; j < model.shape.width; ++j) {
          y[i][static_cast<std::size_t>(token)] +=
              x[i][static_cast<std::size_t>(j)] *
              at("token_embedding.weight", std::int64_t{token} * model.shape.width + j);
        }
      }
    }
    return y;
  }

  Rows attention(const Rows& x, const std::string& name) const {
    const int width = model.shape.width;
    const auto head_width = static_cast<std::size_t>(width / model.shape.heads);
    const Rows q = linear(x, name + ".query", width);
    const Rows k = linear(x, name + ".key", width);
    const Rows v = linear(x, name + ".value", width);
    Rows mixed(x.size(), std::vector<double>(x[0].size()));
    for (std::size_t first = 0; first < x[0].size(); first += head_width) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<double> weights;
        double total = 0;
        for (std::size_t s = 0; s <= i; ++s) {
          double score = 0;
          for (std::size_t c = first; c < first + head_width; ++c) score += q[i][c] * k[s][c];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_width))));
          total += weights.back();
        }
        for (std::size_t s = 0; s <= i; ++s) {
          for (std::size_t c = first; c < first + head_width; ++c)
            mixed[i][c] += weights[s] / total * v[s][c];
        }
      }
    }
    return linear(mixed, name + ".output", width);
  }

  Rows mlp(const Rows& x, const std::string& name) const {
    Rows u = linear(x, name + ".up", model.shape.hidden);
    for (std::vector<double>& row : u) {
      for (double& value : row) {
        value =
            0.5 * value *
            (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (value + 0.044715 * std::pow(value, 3))));
      }
    }
    return linear(u, name + ".down", model.shape.width);
  }
};

void add_to(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
  }
}

double literal_loss(const Model<double>& model) {
  const LiteralModel literal{model};
  const auto tokens = tokens_of(model.shape);
  const int width = model.shape.width;
  const auto context = static_cast<std::size_t>(model.shape.context);
  Rows x(context, std::vector<double>(static_cast<std::size_t>(width)));
  for (std::size_t i = 0; i < context; ++i) {
    for (int j = 0; j < width; ++j) {
      x[i][static_cast<std::size_t>(j)] =
          literal.at("token_embedding.weight", std::int64_t{tokens[i]} * width + j) +
          literal.at("position_embedding.weight", static_cast<std::int64_t>(i) * width + j);
    }
  }
  for (int block = 0; block < model.shape.layers; ++block) {
    const std::string name = "block" + std::to_string(block);
    add_to(x, literal.attention(literal.norm(x, name + ".attention_norm"), name + ".attention"));
    add_to(x, literal.mlp(literal.norm(x, name + ".mlp_norm"), name + ".mlp"));
  }
  const Rows logits = literal.head(literal.norm(x, "final_norm"));
  double loss = 0;
  for (std::size_t i = 0; i < context; ++i) {
    double total = 0;
    for (const double z : logits[i]) total += std::exp(z);
    loss += (std::log(total) - logits[i][tokens[i + 1]]) / static_cast<double>(context);
  }
  return loss;
}

}  // namespace

TEST_CASE("byte_gpt loss is that of the formulas written out position by position") {
  for (const ByteGptShape& shape : {byte_gpt_tiny, ByteGptShape{1, 4, 2, 3, 5}, ByteGptShape{3, 5, 5, 7, 1},
                                    ByteGptShape{2, 6, 2, 7, 9, true}}) {
    const Model<double> model = rough_model<double>(shape);
    CHECK(std::fabs(model.loss() - literal_loss(model)) < 1e-12);
  }
}
