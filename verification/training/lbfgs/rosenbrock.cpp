#include "verification/training/lbfgs/rosenbrock.hpp"

#include <algorithm>
#include <limits>

#include "common/base/philox.hpp"
#include "verification/training/lbfgs/sharded_point.hpp"

namespace zeroproof::verification {
namespace {

std::vector<Piece> all_pieces(const FlatLayout& layout) {
  return layout.pieces({{0, layout.padded_numel()}});
}

}  // namespace

const FlatLayout& rosenbrock_layout() {
  static const FlatLayout layout({{"a", {3}}, {"none", {0}}, {"b", {1025}}, {"c", {2, 9}}});
  return layout;
}

std::vector<float> rosenbrock_start(std::uint64_t seed) {
  const FlatLayout& layout = rosenbrock_layout();
  std::vector<float> start(layout.padded_numel(), std::numeric_limits<float>::quiet_NaN());
  const Philox random(seed, 0x524F53);
  for (const Piece& piece : all_pieces(layout)) {
    for (auto i = static_cast<std::size_t>(piece.global_begin);
         i < static_cast<std::size_t>(piece.global_begin + piece.numel); ++i) {
      start[i] = random.bell(i) * 0.5F;
    }
  }
  return start;
}

RosenbrockClosure::RosenbrockClosure(const LbfgsSetup& place, MeanLossFn* mean_loss,
                                     std::vector<DisturbedEvaluation> disturbed)
    : place_(place), mean_loss_(mean_loss), disturbed_(std::move(disturbed)) {}

bool RosenbrockClosure::disturbed(Disturbance kind) const {
  return std::any_of(disturbed_.begin(), disturbed_.end(), [&](const DisturbedEvaluation& d) {
    return d.kind == kind && d.evaluation == evaluations();
  });
}

double RosenbrockClosure::compute(Span<const float> master_shard, Span<float> grad_shard) {
  const std::vector<float> point = gathered(place_, master_shard);
  std::vector<std::size_t> elements;  // of all tensors, without padding
  for (const Piece& piece : all_pieces(*place_.layout)) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      elements.push_back(static_cast<std::size_t>(piece.global_begin + i));
    }
  }
  std::vector<double> losses;
  std::vector<double> grad(point.size());
  for (std::size_t i = 0; i + 1 < elements.size(); ++i) {
    const double x = point[elements[i]];
    const double a = 1 - x;
    const double b = point[elements[i + 1]] - x * x;
    losses.push_back(a * a + 100 * b * b);
    grad[elements[i]] += -2 * a - 400 * b * x;
    grad[elements[i + 1]] += 200 * b;
  }
  if (disturbed(Disturbance::nan_gradient))
    grad[elements.back()] = std::numeric_limits<double>::quiet_NaN();
  const auto terms = static_cast<double>(losses.size());
  const double scale = (disturbed(Disturbance::steeper_gradient) ? 4 : 1) / terms;
  for (const Piece& piece : own_pieces(place_)) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const auto from = static_cast<std::size_t>(piece.global_begin + i);
      grad_shard[piece.local_begin + i] = static_cast<float>(grad[from] * scale);
    }
  }
  if (disturbed(Disturbance::infinite_loss))
    losses.back() = std::numeric_limits<double>::infinity();
  if (disturbed(Disturbance::higher_loss)) losses.back() += 1e6 * terms;
  return mean_loss_(losses, static_cast<std::int64_t>(losses.size()));
}

std::unique_ptr<Closure> Rosenbrock::closure(const LbfgsSetup& place,
                                             const LbfgsImplementation& implementation,
                                             std::int64_t step) const {
  std::vector<DisturbedEvaluation> now;
  for (const DisturbedEvaluation& d : recipe_.disturbed) {
    if (d.step == step) now.push_back(d);
  }
  return std::make_unique<RosenbrockClosure>(place, implementation.mean_loss, std::move(now));
}

}  // namespace zeroproof::verification
