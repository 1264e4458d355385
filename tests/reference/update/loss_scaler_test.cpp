#include <string>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace loss_scaler_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// One line of a table: an event, and the state after it.
struct Row {
  bool overflow;
  LossScalerState after;
};

void check_table(const LossScalerConfig& config, const std::vector<Row>& rows) {
  LossScalerState state = reference::loss_scaler_init(config);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    state = reference::loss_scaler_update(config, state, rows[i].overflow);
    CAPTURE(i);
    CHECK(state.log2_scale == rows[i].after.log2_scale);
    CHECK(state.growth_tracker == rows[i].after.growth_tracker);
    CHECK(state.hysteresis_left == rows[i].after.hysteresis_left);
  }
}

LossScalerConfig dynamic() {
  LossScalerConfig config;
  config.kind = LossScalerKind::dynamic;
  config.log2_initial = 4;
  config.log2_min = 1;
  config.log2_max = 6;
  config.growth_interval = 2;
  return config;
}

constexpr bool good = false;
constexpr bool overflow = true;

}  // namespace

TEST_CASE("loss scaler: growth, maximum, backoff, minimum") {
  check_table(
      dynamic(),
      {{good, {4, 1, 1}},
       {good, {5, 0, 1}},  // the second good step grows
       {good, {5, 1, 1}},
       {good, {6, 0, 1}},
       {good, {6, 1, 1}},
       {good, {6, 0, 1}},  // 7 would exceed the maximum: no growth, the count restarts
       {good, {6, 1, 1}},
       {overflow, {5, 0, 0}},  // the tracker starts again
       {overflow, {4, 0, 0}},  // hysteresis is used up until the next growth: backs off again
       {good, {4, 1, 0}},
       {overflow, {3, 0, 0}},
       {overflow, {2, 0, 0}},
       {overflow, {1, 0, 0}},
       {overflow, {1, 0, 0}},  // the minimum
       {good, {1, 1, 0}},
       {good, {2, 0, 1}}});  // growth refills the hysteresis
}

TEST_CASE("loss scaler: hysteresis refilled at growth") {
  LossScalerConfig config = dynamic();
  config.hysteresis = 3;
  config.refill = HysteresisRefill::growth;
  check_table(config, {{overflow, {4, 0, 2}},  // tolerated
                       {good, {4, 1, 2}},      // a good step does not refill hysteresis
                       {overflow, {4, 0, 1}},
                       {overflow, {3, 0, 0}},
                       {good, {3, 1, 0}},
                       {good, {4, 0, 3}}});
}

TEST_CASE("loss scaler: hysteresis refilled at every good step") {
  LossScalerConfig config = dynamic();
  config.hysteresis = 2;
  config.refill = HysteresisRefill::good_step;
  check_table(config, {{overflow, {4, 0, 1}},
                       {good, {4, 1, 2}},  // full again
                       {overflow, {4, 0, 1}},
                       {overflow, {3, 0, 0}},
                       {overflow, {2, 0, 0}},
                       {good, {2, 1, 2}}});
}

TEST_CASE("loss scaler: steps of more than one power of two stop at the bounds") {
  LossScalerConfig config = dynamic();
  config.log2_growth = 3;
  config.log2_backoff = 2;
  config.growth_interval = 1;
  check_table(config, {{good, {4, 0, 1}},  // 7 exceeds 6: no growth, not even to 6
                       {overflow, {2, 0, 0}},
                       {good, {5, 0, 1}},
                       {overflow, {3, 0, 0}},
                       {overflow, {1, 0, 0}},
                       {overflow, {1, 0, 0}}});  // -1 is below 1: the minimum itself
  config.log2_growth = std::numeric_limits<int>::max();
  config.log2_backoff = std::numeric_limits<int>::max();
  check_table(config, {{good, {4, 0, 1}}, {overflow, {1, 0, 0}}, {overflow, {1, 0, 0}}});
}

TEST_CASE("loss scaler: growth by the maximum's exact distance") {
  LossScalerConfig config = dynamic();
  config.log2_growth = 2;
  config.growth_interval = 1;
  check_table(config, {{good, {6, 0, 1}}, {good, {6, 0, 1}}});
}

TEST_CASE("loss scaler: none and constant never change") {
  LossScalerConfig config = dynamic();
  config.kind = LossScalerKind::constant;
  check_table(config, {{good, {4, 0, 1}}, {good, {4, 0, 1}}, {overflow, {4, 0, 1}}});
  config.kind = LossScalerKind::none;
  check_table(config, {{good, {0, 0, 1}}, {good, {0, 0, 1}}, {overflow, {0, 0, 1}}});
  config.hysteresis = 5;
  CHECK(reference::loss_scaler_init(config) == LossScalerState{0, 0, 5});
}

TEST_CASE("loss scaler: invalid configurations are rejected") {
  for (int LossScalerConfig::*field :
       {&LossScalerConfig::growth_interval, &LossScalerConfig::hysteresis,
        &LossScalerConfig::log2_growth, &LossScalerConfig::log2_backoff}) {
    LossScalerConfig config = dynamic();
    config.*field = 0;
    ZP_CHECK_INVALID(reference::loss_scaler_update(config, {}, false));
    ZP_CHECK_INVALID(reference::loss_scaler_init(config));
  }
  LossScalerConfig config = dynamic();
  config.log2_initial = 0;
  ZP_CHECK_INVALID(reference::loss_scaler_update(config, {}, false));
  config.log2_initial = 7;
  ZP_CHECK_INVALID(reference::loss_scaler_update(config, {}, false));
}

}  // namespace loss_scaler_test
