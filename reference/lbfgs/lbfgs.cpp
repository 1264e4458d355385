#include "reference/lbfgs/lbfgs.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/lbfgs/lbfgs_optimizer.hpp"

namespace zeroproof::reference {
namespace {

/// R11's recursion with one fp64 addition per node.
struct LossTree {
  Span<const double> losses;

  bool covers_nothing(int level, std::int64_t index) const {
    return index << level >= numel(losses);
  }

  double node(int level, std::int64_t index) const {
    if (level == 0) return losses[index];
    const double left = node(level - 1, 2 * index);
    if (covers_nothing(level - 1, 2 * index + 1)) return left;  // no addition
    return left + node(level - 1, 2 * index + 1);
  }
};

void check(bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

void check_count(const char* name, std::int64_t value, std::int64_t largest) {
  check(value >= 1 && value <= largest, std::string(name) + " is " + std::to_string(value),
        "it is a count", "use 1 up to " + std::to_string(largest));
}

void check_hyper(const LbfgsHyper& hyper) {
  const float lr = static_cast<float>(hyper.lr);
  check(std::isfinite(lr) && lr >= 0x1p-126F, "lr is " + text(hyper.lr),
        "it multiplies steps in fp32", "use a number between 2^-126 and the largest fp32");
  for (const double tolerance : {hyper.tolerance_grad, hyper.tolerance_change}) {
    check(std::isfinite(tolerance) && tolerance >= 0, "a tolerance is " + text(tolerance),
          "changes are compared with it", "use a finite tolerance of 0 or more");
  }
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  check_count("max_iter", hyper.max_iter, largest);
  if (hyper.max_eval) check_count("max_eval", *hyper.max_eval, largest);
  check_count("history_size", hyper.history_size, largest);
  check_count("max_ls", hyper.max_ls,
              100);  // after 100 halvings a step no longer changes x
}

void check_places(const LbfgsSetup& setup) {
  check(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
        "L-BFGS has no layout, shard map or communicator", "they define the elements of each rank",
        "set all three in LbfgsSetup");
  check(setup.shards->covers(*setup.layout), "the shard map does not match the layout",
        "every element needs one owner", "make the shard map from this layout");
  check(setup.shards->world_size() == setup.comm->world_size(),
        "the shard map has " + std::to_string(setup.shards->world_size()) +
            " ranks, the communicator " + std::to_string(setup.comm->world_size()),
        "every shard needs a rank", "make the shard map for this communicator");
}

}  // namespace

double mean_loss(Span<const double> losses, std::int64_t divisor) {
  check(!losses.empty(), "mean_loss: no losses", "a step has at least one micro-batch",
        "pass M >= 1 losses");
  check(divisor >= 1 && divisor < std::int64_t{1} << 53,
        "mean_loss: the divisor is " + std::to_string(divisor),
        "it counts micro-batches or tokens, exact in fp64", "use 1 or more, less than 2^53");
  int root = 0;
  while (std::int64_t{1} << root < numel(losses)) ++root;
  return LossTree{losses}.node(root, 0) / static_cast<double>(divisor);  // [LBFGS:loss]
}

std::unique_ptr<LbfgsOptimizer> make_lbfgs(const LbfgsSetup& setup) {
  check_places(setup);
  check_hyper(setup.hyper);
  return std::make_unique<Lbfgs>(setup);
}

}  // namespace zeroproof::reference
