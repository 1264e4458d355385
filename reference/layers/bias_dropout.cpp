#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "reference/layers/activation_rows.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// The kept elements, and their factor, which keeps the mean of the result equal to the value
/// [Fusion:dropout].
class Dropout {
 public:
  Dropout(const char* operation, const DropoutDraw& draw, double probability)
      : words_(draw.seed, dropout_stream, static_cast<std::uint32_t>(draw.step)),
        first_(draw.first_index) {
    ZP_CHECK(probability >= 0 && probability < 1, ErrorCode::invalid_argument,
             std::string(operation) + ": the probability is " + text(probability),
             "kept elements are divided by one minus it", "pass a number from 0 to below 1");
    threshold_ = static_cast<std::uint64_t>(std::floor(probability * 0x1p32));
    scale_ = static_cast<float>(1 / (1 - probability));
  }

  float operator()(float u, std::int64_t index) const {
    const std::uint64_t w = words_.word(first_ + static_cast<std::uint64_t>(index));
    return w >= threshold_ ? u * scale_ : 0.0F;
  }

 private:
  Philox words_;
  std::uint64_t first_;
  std::uint64_t threshold_ = 0;
  float scale_ = 1;
};

}  // namespace

void bias_dropout(const Exec&, const DropoutDraw& draw, std::int64_t columns, double probability,
                  Span<const float> x, Span<const float> bias, Span<const float> residual,
                  Span<float> y) {
  const ActivationRows shape = check_rows("bias_dropout", columns, x.size());
  check_optional_elements("bias_dropout", "bias", bias.size(), columns);
  check_same_numel("bias_dropout", "x", x.size(), "residual", residual.size());
  check_same_numel("bias_dropout", "x", x.size(), "y", y.size());
  const Dropout dropout("bias_dropout", draw, probability);
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block u = part.with_bias(part.of(x), bias, 0);
    Block d(u.size());
    for (std::int64_t j = 0; j < u.size(); ++j)
      d[j] = dropout(u[j], part.row * columns + part.first + j);
    part.of(y) = d + part.of(residual);
  });
}

void bias_dropout_backward(const Exec&, const DropoutDraw& draw, double probability,
                           Span<const float> dy, Span<float> dx) {
  check_same_numel("bias_dropout_backward", "dy", dy.size(), "dx", dx.size());
  const Dropout dropout("bias_dropout_backward", draw, probability);
  for (std::size_t i = 0; i < dy.size(); ++i) dx[i] = dropout(dy[i], static_cast<std::int64_t>(i));
}

}  // namespace zeroproof::reference
