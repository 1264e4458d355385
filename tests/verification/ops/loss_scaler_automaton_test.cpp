// The loss scaler as a finite automaton. A table of transitions is written out from the doc block
// of common/contracts/loss_scaler.hpp; both implementations must follow it along every pattern of
// overflows of length 14 and from every state of the table, for every set of a grid of settings.

#include <doctest.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"

namespace loss_scaler_automaton_test {

namespace {

using namespace zeroproof;

struct Implementation {
  const char* name;
  LossScalerInitFn* init;
  LossScalerUpdateFn* update;
};
constexpr Implementation implementations[] = {
    {"reference", reference::loss_scaler_init, reference::loss_scaler_update},
    {"host", cuda::host::loss_scaler_init, cuda::host::loss_scaler_update}};

/// Every possible state of a dynamic scaler with these settings, and the next state for each of the
/// two inputs. States are numbered; a state is a row of three columns (scale, steps without
/// overflow, overflows still tolerated).
class Table {
 public:
  explicit Table(const LossScalerConfig& config)
      : scales_(config.log2_max - config.log2_min + 1),
        trackers_(config.growth_interval),
        lefts_(config.hysteresis + 1),
        low_(config.log2_min) {
    for (int scale = 0; scale < scales_; ++scale) {
      // The scale has two columns: the next scale down, which stops at the minimum, and the next
      // one up, which refuses to pass the maximum.
      const int down = scale < config.log2_backoff ? 0 : scale - config.log2_backoff;
      const int up = scales_ - scale > config.log2_growth ? scale + config.log2_growth : scale;
      for (int tracker = 0; tracker < trackers_; ++tracker) {
        const bool grows = tracker == trackers_ - 1;
        for (int left = 0; left < lefts_; ++left) {
          const int full = lefts_ - 1;
          const bool forgiven = left >= 2;
          on_overflow_.push_back(forgiven ? number(scale, 0, left - 1) : number(down, 0, 0));
          const int kept = config.refill == HysteresisRefill::good_step ? full : left;
          on_good_.push_back(grows ? number(up, 0, full) : number(scale, tracker + 1, kept));
        }
      }
    }
  }

  int size() const { return scales_ * trackers_ * lefts_; }
  int next(int state, bool overflow) const { return (overflow ? on_overflow_ : on_good_)[state]; }
  int first(const LossScalerConfig& config) const {
    return number(config.log2_initial - low_, 0, lefts_ - 1);
  }
  LossScalerState values(int state) const {
    return {low_ + state / (trackers_ * lefts_), state / lefts_ % trackers_, state % lefts_};
  }

 private:
  int number(int scale, int tracker, int left) const {
    return (scale * trackers_ + tracker) * lefts_ + left;
  }

  int scales_, trackers_, lefts_, low_;
  std::vector<int> on_overflow_, on_good_;
};

std::string text_of(const LossScalerState& s) {
  return "(" + std::to_string(s.log2_scale) + ", " + std::to_string(s.growth_tracker) + ", " +
         std::to_string(s.hysteresis_left) + ")";
}

/// Walks the tree of patterns; patterns with a common prefix share it, so a set costs 2^15
/// transitions.
class Walk {
 public:
  Walk(const Implementation& implementation, const LossScalerConfig& config, const Table* table)
      : implementation_(implementation), config_(config), table_(table) {}

  void run() {
    const LossScalerState start = implementation_.init(config_);
    if (table_ != nullptr) {
      descend(start, table_->first(config_), 0);
    } else {
      still_ = start;
      descend(start, 0, 0);
    }
  }
  std::int64_t transitions() const { return transitions_; }
  const std::string& problem() const { return problem_; }

 private:
  static constexpr std::size_t depth_limit = 14;

  /// `state` is the implementation's, `row` the table's, after `depth` steps.
  void descend(const LossScalerState& state, int row, std::size_t depth) {
    const LossScalerState expected = table_ == nullptr ? still_ : table_->values(row);
    if (!(state == expected)) {
      problem_ = std::string(implementation_.name) + " is in " + text_of(state) + " and not in " +
                 text_of(expected) + " after '" + pattern_ + "' (x: overflow)";
    }
    if (depth == depth_limit || !problem_.empty()) return;
    for (const bool overflow : {false, true}) {
      ++transitions_;
      pattern_.push_back(overflow ? 'x' : '.');
      descend(implementation_.update(config_, state, overflow),
              table_ == nullptr ? 0 : table_->next(row, overflow), depth + 1);
      pattern_.pop_back();
      if (!problem_.empty()) return;
    }
  }

  const Implementation& implementation_;
  const LossScalerConfig& config_;
  const Table* table_;       ///< none: the scaler never moves
  LossScalerState still_{};  ///< where it then stays
  std::int64_t transitions_ = 0;
  std::string pattern_, problem_;
};

struct Bounds {
  int low, initial, high;
};
/// Never reached in 14 steps of 2; both ends reached; only the top; only the bottom; one value;
/// negative exponents.
constexpr Bounds all_bounds[] = {{0, 30, 64}, {2, 4, 6}, {0, 5, 5},
                                 {3, 3, 8},   {7, 7, 7}, {-6, -4, -1}};

template <class Visit>
void for_each_setting(Visit&& visit) {
  for (const Bounds& bounds : all_bounds) {
    for (int interval = 1; interval <= 4; ++interval) {
      for (int hysteresis = 1; hysteresis <= 3; ++hysteresis) {
        for (const HysteresisRefill refill :
             {HysteresisRefill::growth, HysteresisRefill::good_step}) {
          for (int growth = 1; growth <= 2; ++growth) {
            for (int backoff = 1; backoff <= 2; ++backoff) {
              visit(LossScalerConfig{LossScalerKind::dynamic, bounds.initial, growth, backoff,
                                     bounds.low, bounds.high, interval, hysteresis, refill});
            }
          }
        }
      }
    }
  }
}

std::string text_of(const LossScalerConfig& c) {
  return "interval " + std::to_string(c.growth_interval) + ", hysteresis " +
         std::to_string(c.hysteresis) + ", " +
         (c.refill == HysteresisRefill::growth ? "refilled at growth" : "refilled at good steps") +
         ", growth " + std::to_string(c.log2_growth) + ", backoff " +
         std::to_string(c.log2_backoff) + ", " + std::to_string(c.log2_min) +
         " <= " + std::to_string(c.log2_initial) + " <= " + std::to_string(c.log2_max);
}

}  // namespace

TEST_CASE(
    "loss scaler: every pattern of 14 steps for every setting, against the table of transitions") {
  std::int64_t transitions = 0;
  std::int64_t settings = 0;
  for_each_setting([&](const LossScalerConfig& config) {
    const Table table(config);
    ++settings;
    for (const Implementation& implementation : implementations) {
      Walk walk(implementation, config, &table);
      walk.run();
      transitions += walk.transitions();
      const std::string where = text_of(config);
      CAPTURE(where);
      REQUIRE(walk.problem() == "");
    }
  });
  std::printf("loss scaler: %lld settings, %lld transitions along patterns of 14 steps\n",
              static_cast<long long>(settings), static_cast<long long>(transitions));
  CHECK(transitions == settings * 2 * ((1 << 15) - 2));
}

TEST_CASE("loss scaler: every state of the table, also states that no pattern reaches") {
  std::int64_t transitions = 0;
  for_each_setting([&](const LossScalerConfig& config) {
    const Table table(config);
    for (int state = 0; state < table.size(); ++state) {
      for (const bool overflow : {false, true}) {
        for (const Implementation& implementation : implementations) {
          const LossScalerState actual =
              implementation.update(config, table.values(state), overflow);
          const LossScalerState expected = table.values(table.next(state, overflow));
          ++transitions;
          if (actual == expected) continue;
          FAIL(implementation.name
               << ": " << text_of(table.values(state)) << (overflow ? " overflow" : " good")
               << " gives " << text_of(actual) << " and not " << text_of(expected) << " with "
               << text_of(config));
        }
      }
    }
  });
  CHECK(transitions > 0);
  std::printf("loss scaler: %lld transitions from every state\n",
              static_cast<long long>(transitions));
}

TEST_CASE("loss scaler: none and constant never move") {
  std::int64_t transitions = 0;
  for (const LossScalerKind kind : {LossScalerKind::none, LossScalerKind::constant}) {
    for_each_setting([&](LossScalerConfig config) {
      config.kind = kind;
      for (const Implementation& implementation : implementations) {
        const LossScalerState start = implementation.init(config);
        const LossScalerState expected{kind == LossScalerKind::none ? 0 : config.log2_initial, 0,
                                       config.hysteresis};
        CHECK(start == expected);
        if (config.growth_interval + config.log2_growth + config.log2_backoff != 3)
          continue;  // a few are enough
        Walk walk(implementation, config, nullptr);
        walk.run();
        transitions += walk.transitions();
        REQUIRE(walk.problem() == "");
      }
    });
  }
  std::printf("loss scaler: %lld transitions of scalers with constant scale\n",
              static_cast<long long>(transitions));
  CHECK(transitions > 0);
}

TEST_CASE("loss scaler: settings at the ends of 32 bits follow the same rules") {
  constexpr int largest = std::numeric_limits<std::int32_t>::max();
  constexpr int smallest = std::numeric_limits<std::int32_t>::min();
  for (const Implementation& implementation : implementations) {
    const std::string who = implementation.name;
    CAPTURE(who);
    LossScalerConfig config{LossScalerKind::dynamic, 0, 1, 1, smallest, largest, 1, 1,
                            HysteresisRefill::growth};
    config.log2_backoff = largest;
    const LossScalerState once = implementation.update(config, implementation.init(config), true);
    CHECK(once == LossScalerState{-largest, 0, 0});
    CHECK(implementation.update(config, once, true) ==
          LossScalerState{smallest, 0, 0});  // stops at the minimum
    config.log2_growth = largest;
    const LossScalerState grown = implementation.update(config, implementation.init(config), false);
    CHECK(grown == LossScalerState{largest, 0, 1});
    CHECK(implementation.update(config, grown, false) ==
          LossScalerState{largest, 0, 1});  // would pass the maximum
    config.log2_initial = config.log2_min = 1;
    CHECK(implementation.update(config, implementation.init(config), false) ==
          LossScalerState{1, 0, 1});
  }
}

TEST_CASE("loss scaler: impossible states are refused, for every kind") {
  constexpr int largest = std::numeric_limits<std::int32_t>::max();
  for (const LossScalerKind kind :
       {LossScalerKind::none, LossScalerKind::constant, LossScalerKind::dynamic}) {
    const LossScalerConfig config{kind, 4, 1, 1, 0, 8, 3, 2, HysteresisRefill::growth};
    for (const Implementation& implementation : implementations) {
      const std::string who = implementation.name;
      CAPTURE(who);
      for (const LossScalerState bad :
           {LossScalerState{4, -1, 1}, LossScalerState{4, largest, 1}, LossScalerState{4, 0, -1}}) {
        CHECK_THROWS_AS(implementation.update(config, bad, false), Error);
        CHECK_THROWS_AS(implementation.update(config, bad, true), Error);
      }
      CHECK_NOTHROW(implementation.update(config, LossScalerState{4, largest - 1, 0}, false));
    }
  }
}

TEST_CASE("loss scaler: a tracker loaded above the interval never reaches it") {
  const LossScalerConfig config{LossScalerKind::dynamic, 4, 1, 1, 0, 8, 3, 2,
                                HysteresisRefill::growth};
  for (const Implementation& implementation : implementations) {
    LossScalerState state{4, 7, 1};
    for (int step = 1; step <= 100; ++step) {
      state = implementation.update(config, state, false);
      CHECK(state == LossScalerState{4, 7 + step, 1});
    }
    CHECK(implementation.update(config, state, true) == LossScalerState{3, 0, 0});
  }
}

}  // namespace loss_scaler_automaton_test
