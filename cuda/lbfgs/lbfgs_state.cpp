#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "cuda/lbfgs/production_lbfgs.hpp"

namespace zeroproof::cuda {
namespace {

bool in_range(std::int64_t value, std::int64_t largest) { return value >= 1 && value <= largest; }

void check_hyper(const LbfgsHyper& h) {
  const auto require = [](bool ok, const std::string& problem, const std::string& why,
                          const std::string& remedy) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
  };
  const auto lr = static_cast<float>(h.lr);
  require(std::isfinite(h.lr) && lr >= 0x1p-126F && std::isfinite(lr),
          "L-BFGS has lr " + std::to_string(h.lr), "moves are multiplied by it in fp32",
          "use a normal positive fp32 number");
  for (const double tolerance : {h.tolerance_grad, h.tolerance_change}) {
    require(std::isfinite(tolerance) && tolerance >= 0,
            "L-BFGS has a tolerance of " + std::to_string(tolerance),
            "steps end when a value is at most that", "use a finite number of 0 or more");
  }
  constexpr std::int64_t largest = (std::int64_t{1} << 31) - 1;
  require(in_range(h.max_iter, largest) && in_range(h.max_eval.value_or(1), largest) &&
              in_range(h.history_size, largest) && in_range(h.max_ls, 100),
          "L-BFGS has a count that is out of range",
          "max_iter, max_eval, history_size and max_ls count what a step does",
          "use 1 to 2147483647, and 1 to 100 for max_ls");
}

}  // namespace

LbfgsSetup validate(const LbfgsSetup& setup) {
  ZP_CHECK(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
           ErrorCode::invalid_argument, "the setup of L-BFGS lacks a layout, a shard map or a communicator",
           "it works on shards", "fill in all three");
  ZP_CHECK(setup.shards->world_size() == setup.comm->world_size() && setup.shards->covers(*setup.layout),
           ErrorCode::invalid_argument,
           "the shard map is for " + std::to_string(setup.shards->world_size()) + " ranks and " +
               std::to_string(setup.shards->padded_numel()) + " elements, the run has " +
               std::to_string(setup.comm->world_size()) + " and " +
               std::to_string(setup.layout->padded_numel()),
           "every element needs one owner", "build the map for this layout and world");
  check_hyper(setup.hyper);
  return setup;
}

void ProductionLbfgs::load_state(const LbfgsState& full) {
  const auto require = [](bool ok, const std::string& problem) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, "the run could not go on as it was",
             "load a state that an optimizer with these settings has given");
  };
  const auto numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const std::size_t pending_numel = full.pending ? numel : 0;
  require(full.master.size() == numel && full.grad_before.size() == pending_numel &&
              full.move.size() == pending_numel,
          "a vector of the L-BFGS state does not have " + std::to_string(numel) + " elements");
  require(full.steps.size() == full.rho.size() && full.grad_changes.size() == full.rho.size() &&
              static_cast<std::int64_t>(full.rho.size()) <= setup_.hyper.history_size,
          "the L-BFGS state has " + std::to_string(full.rho.size()) + " pairs that do not fit the history");
  require(full.iterations >= 0 && full.evaluations >= 0, "the L-BFGS state counts below 0");
  for (const auto* vectors : {&full.steps, &full.grad_changes}) {
    for (const Span<const float> vector : *vectors) {
      require(vector.size() == numel,
              "a pair of the L-BFGS state does not have " + std::to_string(numel) + " elements");
    }
  }
  memory_.load(full, pieces_, vectors_);
  loaded_ = true;
}

}  // namespace zeroproof::cuda
