// Step scalars (R5) of both implementations against the oracle: random settings of every rule, and
// all violations of ranges.

#include <doctest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "oracle_implementations.hpp"
#include "oracle_settings.hpp"

namespace step_scalars_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// The implementations that compute scalars: one of the host, because instruction sets have no
/// effect.
std::vector<Implementation> scalar_implementations() {
  return {reference_implementation(), host_implementation(Isa::best)};
}

struct Expected {
  bool allowed = false;
  oracle_scalars scalars{};
};

bool agree(const Implementation& implementation, const Settings& c, const Expected& expected) {
  try {
    const StepScalars actual =
        implementation.step_scalars(to_hyper(c.hyper), c.t, c.log2_loss_scale, c.divisor);
    return expected.allowed && std::memcmp(&actual, &expected.scalars, sizeof actual) == 0;
  } catch (const Error& error) {
    return !expected.allowed && error.code() == ErrorCode::invalid_argument;
  }
}

void compare(const char* what, std::int64_t cases, Settings (*make)(std::uint64_t)) {
  const std::vector<Implementation> implementations = scalar_implementations();
  std::atomic<std::int64_t> differ{0}, allowed{0};
  std::mutex mutex;
  std::string first;
  parallel_for(available_cores(), cases / 1000, [&](std::int64_t part) {
    for (std::int64_t i = 1000 * part; i < 1000 * (part + 1); ++i) {
      const Settings c = make(static_cast<std::uint64_t>(i));
      Expected expected;
      expected.allowed =
          oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &expected.scalars) != 0;
      allowed += expected.allowed ? 1 : 0;
      for (const Implementation& implementation : implementations) {
        if (agree(implementation, c, expected)) continue;
        const std::lock_guard lock(mutex);
        if (differ++ == 0)
          first = implementation.name + ", case " + std::to_string(i) + ": " + describe(c);
      }
    }
  });
  std::printf("step scalars, %s: %lld cases (%lld allowed) x %zu implementations, %lld differ\n",
              what, static_cast<long long>(cases), static_cast<long long>(allowed.load()),
              implementations.size(), static_cast<long long>(differ.load()));
  CHECK_MESSAGE(differ == 0, first);
}

}  // namespace

TEST_CASE("step scalars: valid settings of every rule") {
  compare("valid", 100'000, valid_settings);
}

TEST_CASE("nightly: step scalars: a million valid settings of every rule") {
  compare("valid", 1'000'000, valid_settings);
}

TEST_CASE("step scalars: betas next to 1") { compare("cancelling", 50'000, cancelling_settings); }

TEST_CASE("step scalars: both implementations refuse settings out of range, and no others") {
  compare("damaged", 30'000, damaged_settings);
}

TEST_CASE("step scalars: an infinite eps is refused, one that is infinite only as fp32 is not") {
  OptimizerHyper hyper;
  for (const Implementation& implementation : scalar_implementations()) {
    hyper.eps = std::numeric_limits<double>::infinity();
    CHECK_THROWS_AS(implementation.step_scalars(hyper, 1, 0, 1), Error);
    hyper.eps = 1e39;
    CHECK(std::isinf(implementation.step_scalars(hyper, 1, 0, 1).eps));
  }
}

TEST_CASE("step scalars: new words of version 2, by hand") {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::sgd;
  hyper.lr = 0.5;
  hyper.weight_decay = 0.25;
  hyper.momentum = 0.75;
  hyper.dampening = 0.5;
  for (const Implementation& implementation : scalar_implementations()) {
    CAPTURE(implementation.name);
    StepScalars s = implementation.step_scalars(hyper, 1, 3, 4);
    CHECK(s.inv_scale == 0x1p-5F);
    CHECK(s.lr == 0.5F);
    CHECK(s.weight_decay == 0.25F);
    CHECK(s.lr_weight_decay == 0.125F);
    CHECK(s.momentum == 0.75F);
    CHECK(s.one_minus_dampening == 0.5F);
    CHECK(s.has_decay == 1);
    CHECK(s.is_first == 1);
    CHECK(implementation.step_scalars(hyper, 2, 3, 4).is_first == 0);
    // The decay coefficient is the rule's own: lr * weight_decay vanishes where decay is decoupled.
    hyper.momentum = hyper.dampening = 0;
    hyper.lr = 1e-200;
    hyper.weight_decay = 1e-200;
    for (const RuleTraits& rule : update_rules) {
      const bool decoupled = rule.decay == DecayKind::decoupled;
      hyper.rule = rule.rule;
      CHECK(implementation.step_scalars(hyper, 5, 0, 1).has_decay == (decoupled ? 0U : 1U));
    }
    hyper = {};
    hyper.rule = UpdateRule::sgd;
    hyper.lr = 0.5;
    hyper.weight_decay = 0.25;
    hyper.momentum = 0.75;
    hyper.dampening = 0.5;
  }
}

}  // namespace step_scalars_test
