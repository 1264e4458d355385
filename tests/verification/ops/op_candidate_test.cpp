// Any candidate has ids and separate verdicts, and cannot read the expected results.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "tests/support/user_candidate.hpp"
#include "tests/verification/ops/changed_adamw.hpp"
#include "verification/interfaces/files/dialect_call.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/ops/operations/update_settings.hpp"
#include "verification/report/report_failures.hpp"

namespace op_candidate_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// A foreign clip_value, the candidate's only operation.
class ClipCandidate final : public OpCandidate {
 public:
  explicit ClipCandidate(OpFunction run, std::string why_not = "")
      : run_(std::move(run)), why_not_(std::move(why_not)) {}
  std::string id() const override { return "user/one"; }
  std::string side() const override { return "user one"; }
  Implementation kind() const override { return Implementation::host; }
  bool has(const Op& op) const override { return op.name == "clip_value"; }
  std::string obstacle(const Op&) const override { return why_not_; }
  OpFunction function(const Op&, const std::string&) const override { return run_; }

 private:
  OpFunction run_;
  std::string why_not_;
};

Result judged(const ClipCandidate& candidate) {
  return run_op_cases(op_cases("op/clip_value/user/one/fill:ties", {&candidate}), {}).front();
}

}  // namespace

TEST_CASE("op candidates: an added candidate has separate ids") {
  const ClipCandidate candidate(find_op("clip_value")->host);
  std::vector<std::string> ids;
  for (const OpCaseSpec& spec : op_cases("op/*", {&candidate})) {
    if (spec.candidate == &candidate) ids.push_back(spec.id());
  }
  CHECK(ids.size() == find_op("clip_value")->fills.size());
  CHECK(ids.front() == "op/clip_value/user/one/fill:exact-sum");
  CHECK_THROWS_AS(op_cases("op/clip/user/one/fill:ties", {&candidate}),
                  Error);  // it does not have this operation
  CHECK_THROWS_AS(op_cases("op/clip_value/user/two/fill:ties", {&candidate}),
                  Error);  // no candidate has that name
  CHECK_THROWS_AS(op_cases("op/clip_value/user/one/fill:ties"), Error);  // no candidate was passed
}

TEST_CASE("op candidates: an added candidate is judged like any other") {
  const ClipCandidate right(find_op("clip_value")->host);
  const Result passed = judged(right);
  CHECK(passed.status == Status::pass);
  CHECK(passed.side == "user one");
  CHECK(passed.compared > 0);
  const ClipCandidate wrong([](OpCall&) {});
  CHECK(judged(wrong).status == Status::fail);
  const ClipCandidate absent(find_op("clip_value")->host, "it is out");
  const Result skipped = judged(absent);
  CHECK(skipped.status == Status::skipped);
  CHECK(skipped.reason == "it is out");
}

TEST_CASE("op candidates: a CandidateFailure names the call") {
  const ClipCandidate dies([](OpCall&) { throw CandidateFailure(Status::crashed, "it died"); });
  const Result result = judged(dies);
  CHECK(result.status == Status::crashed);
  CHECK(result.reason.rfind("it died (numel 0, offset 0, ", 0) == 0);
}

TEST_CASE("op candidates: run before the reference computes the call") {
  Op op = *find_op("clip_value");
  int calls = 0;
  int references = 0;
  op.reference = [&](OpCall& call) {
    CHECK(calls == ++references);
    find_op("clip_value")->reference(call);
  };
  const ClipCandidate candidate([&](OpCall& call) {
    ++calls;
    find_op("clip_value")->host(call);
  });
  CHECK(run_op_cases({{&op, &candidate, Fill::ties}}, {}).front().status == Status::pass);
  CHECK(calls > 0);
  CHECK(calls == references);
}

namespace {

/// AdamW that applies the decay first: legal, with other bits. The first `until` elements of a call
/// are computed.
OpFunction decay_first(const std::function<std::int64_t(std::int64_t numel)>& until) {
  return [until](OpCall& call) {
    const StepScalars s = update_settings(call.variant() / 4, {}).scalars;
    const bool amsgrad = call.variant() % 2 == 1;
    const float sign = call.variant() / 2 % 2 == 1 ? -1.0F : 1.0F;
    for (std::size_t i = 0; i < static_cast<std::size_t>(until(call.numel())); ++i) {
      const float g = sign * call.in<float>(0)[i];
      float& p = call.get<float>(1)[i];
      float& m = call.get<float>(2)[i];
      float& v = call.get<float>(3)[i];
      float& largest = call.get<float>(4)[i];
      if (s.has_decay != 0) p = p - s.lr_weight_decay * p;
      m = s.beta1 * m + s.one_minus_beta1 * g;
      v = s.beta2 * v + s.one_minus_beta2 * (g * g);
      if (amsgrad) largest = largest >= v ? largest : v;
      p = p -
          s.step_size * (m / (std::sqrt(amsgrad ? largest : v) / s.sqrt_bias_correction2 + s.eps));
    }
  };
}

Result update_of(const OpFunction& run, bool any_order, const std::string& fill = "training") {
  const UserCandidate user("adamw_update", run);
  OpRunOptions options;
  options.any_order = any_order;
  return run_op_cases(op_cases("op/adamw_update/user/one/fill:" + fill, {&user}), options).front();
}

}  // namespace

TEST_CASE(
    "foreign update: a zero of the other sign is another order, within the bound's conditions") {
  const auto negative_zeros = [](OpCall& call) {
    find_op("adamw_update")->host(call);
    for (float& m : call.get<float>(2)) m = m == 0 ? -0.0F : m;
  };
  const Result accepted = update_of(negative_zeros, true, "zero");
  CAPTURE(accepted.reason);
  CHECK(accepted.status == Status::pass);
  CHECK(accepted.held_to == "any-order");
  CHECK(accepted.legal_differences > 0);
  const Result strict = update_of(negative_zeros, false, "zero");
  CHECK(strict.status == Status::fail);
  CHECK(strict.held_to == "contract");
  REQUIRE(strict.divergence.has_value());
  CHECK(strict.divergence->order.find("at most 0 of it; another order") != std::string::npos);
}

TEST_CASE("foreign update: another order fails as legal, and passes with --accept any-order") {
  const auto whole = [](std::int64_t numel) { return numel; };
  const Result strict = update_of(decay_first(whole), false);
  CHECK(strict.status == Status::fail);
  REQUIRE(strict.divergence.has_value());
  CAPTURE(strict.divergence->order);
  CHECK(strict.divergence->order.rfind("within the bound of any legal order: at most ", 0) == 0);
  const Result accepted = update_of(decay_first(whole), true);
  CHECK(accepted.status == Status::pass);
  CHECK(accepted.differing == 0);
  CHECK(accepted.legal_differences == strict.differing);
  CHECK(accepted.exactness == "bounded");
  CHECK(accepted.worst_ratio > 0.1);
  CHECK(accepted.worst_ratio <= 1);
  const Result exact = update_of(find_op("adamw_update")->host, true);
  CHECK(exact.status == Status::pass);
  CHECK(exact.legal_differences == 0);
}

TEST_CASE(
    "foreign update: special numbers pass by class, and reports count how results were judged") {
  const Result legal = update_of(adamw_decay_as_factor, true, "special");
  CAPTURE(legal.reason);
  CHECK(legal.status == Status::pass);
  REQUIRE(legal.judged.has_value());
  CAPTURE(to_string(*legal.judged));
  CHECK(legal.judged->total() == legal.compared);
  CHECK(legal.judged->classes > 0);
  CHECK(legal.judged->nothing * 1000 < legal.judged->total());
  CHECK(legal.legal_differences == legal.compared - legal.judged->bits);
  CHECK_FALSE(update_of(adamw_decay_as_factor, false, "special").judged.has_value());
}

TEST_CASE("foreign update: an error is shown at the first result that no legal order has") {
  for (const bool any_order : {true, false}) {
    const Result lost = update_of(adamw_without_nan, any_order, "special");
    CHECK(lost.status == Status::fail);
    REQUIRE(lost.divergence.has_value());
    CHECK(lost.divergence->order.find("and has to be NaN") != std::string::npos);
    CHECK(lost.divergence->order.find("another order") == std::string::npos);
  }
  // The decay as a factor changes most parameters; one element of large calls is wrong.
  const auto one_wrong = [](OpCall& call) {
    adamw_decay_as_factor(call);
    if (call.numel() > 1000) call.get<float>(1)[777] = 2;
  };
  const Result wrong = update_of(one_wrong, true);
  CHECK(wrong.status == Status::fail);
  REQUIRE(wrong.divergence.has_value());
  const Divergence& d = *wrong.divergence;
  CHECK(d.buffer == "master");
  CHECK(d.shard_index == 777);
  CHECK(d.candidate_value == "0x40000000 (2)");
  CHECK(d.differing == 1);
  CHECK_FALSE(d.inputs.empty());
  CHECK(d.call.find("numel 1") == 0);
  CHECK(d.call.find(", seed 1") != std::string::npos);
  CHECK(wrong.differing < 2000);  // one for each of the calls
  CHECK(wrong.legal_differences > 100000);
  CHECK(details_of(wrong, "").find("results are in no legal order") != std::string::npos);
}

TEST_CASE("foreign update: more than 1 % of results not judged at all is mistrusted") {
  Op op = *find_op("adamw_update");
  op.bounds = [](const OpCall&, const OpCall&) {
    return CallBounds::by([](std::size_t, std::int64_t) { return ElementBound{}; });
  };
  const UserCandidate user("adamw_update", adamw_decay_as_factor);
  OpRunOptions options;
  options.any_order = true;
  const Result result = run_op_cases({{&op, &user, Fill::training}}, options).front();
  CHECK(result.status == Status::mistrusted);
  CHECK(result.reason.find("results were not judged: no bound applies") != std::string::npos);
}

TEST_CASE("foreign update: fails with a position if no order explains it") {
  for (const bool any_order : {false, true}) {
    const Result cut =
        update_of(decay_first([](std::int64_t numel) { return numel - numel % 16; }), any_order);
    CHECK(cut.status == Status::fail);
    REQUIRE(cut.divergence.has_value());
    CAPTURE(cut.divergence->order);
    CHECK(cut.divergence->order.rfind("in no legal order: ", 0) == 0);
    CHECK(cut.divergence->order.find("always in the remainder of a loop over 16 elements") !=
          std::string::npos);
  }
  const Result stray = update_of(
      [](OpCall& call) {
        find_op("adamw_update")->host(call);
        call.get<float>(3).data()[-1] = 0;  // outside of its bounds
      },
      true);
  CHECK(stray.status == Status::fail);
}

TEST_CASE("foreign update: can be compared with the bits of another library") {
  const std::shared_ptr<const OpExpectation> torch = dialect_expectation("torch-cpu-single");
  const Dialect& dialect = dialect_named("torch-cpu-single");
  const auto judged_by_torch = [&](const OpFunction& run, const std::string& pattern) {
    const UserCandidate user("adamw_update", run);
    OpRunOptions options;
    options.expectation = torch.get();
    return run_op_cases(op_cases(pattern, {&user}), options).front();
  };
  const std::string training = "op/adamw_update/user/one/fill:training";
  const Result theirs = judged_by_torch(
      [&](OpCall& call) { compute_dialect(dialect, *find_op("adamw_update"), call); }, training);
  CHECK(theirs.status == Status::pass);
  CHECK(theirs.held_to == "dialect:torch-cpu-single");
  CHECK(theirs.compared > 1000000);
  const Result ours = judged_by_torch(find_op("adamw_update")->host, training);
  CHECK(ours.status == Status::fail);
  CHECK(ours.reason.find("differs from torch-cpu-single") != std::string::npos);
  OpRunOptions options;
  options.expectation = torch.get();
  const ClipCandidate clips(find_op("clip_value")->host);
  const Result other =
      run_op_cases(op_cases("op/clip_value/user/one/fill:ties", {&clips}), options).front();
  CHECK(other.status == Status::skipped);
  CHECK(other.reason == "torch-cpu-single computes something else");
  CHECK_THROWS_AS(dialect_expectation("torch-cpu-singel"), Error);
}

namespace {

/// A foreign operation by name: the reference's result, then edited.
Result of_stranger(const std::string& op, const std::string& fill, bool any_order,
                   const OpFunction& run) {
  const UserCandidate other(op, run);
  OpRunOptions options;
  options.any_order = any_order;
  return run_op_cases(op_cases("op/" + op + "/user/one/fill:" + fill, {&other}), options).front();
}

float setting_of(const OpCall& call, const std::string& op, std::size_t k) {
  return static_cast<float>(std::get<double>(find_op(op)->settings(call)[k].value));
}

}  // namespace

TEST_CASE("foreign stochastic rounding: any generator, with the right shares of both neighbours") {
  /// draw: 16 random bits of the element, from a counter; fresh: it goes on from call to call.
  const auto rounded = [](const std::function<std::uint32_t(std::uint64_t call, std::uint64_t i,
                                                            std::uint32_t bits)>& draw,
                          const std::string& fill, bool any_order = true, bool fresh = true) {
    std::uint64_t calls = 0;
    return of_stranger("stochastic_cast_to_bf16", fill, any_order, [&](OpCall& call) {
      ++calls;
      const Span<const float> source = call.in<float>(0);
      std::uint64_t element = fresh ? calls << 32U : 0;
      for (std::size_t i = 0; i < source.size(); ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(source[i]);
        const std::uint32_t up = std::isfinite(source[i]) ? draw(calls, element++, bits) : 0;
        const bool nan = std::isnan(source[i]);
        call.get<bf16>(1)[i] = {static_cast<std::uint16_t>(nan ? 0x7FFFU : (bits + up) >> 16U)};
      }
    });
  };
  const auto word = [](std::uint64_t i) {
    const auto low = static_cast<std::uint32_t>(i), high = static_cast<std::uint32_t>(i >> 32U);
    return philox4x32({low, high, 0, 7}, 11)[0];
  };
  const auto own = [&](std::uint64_t, std::uint64_t i, std::uint32_t) { return word(i) >> 16U; };
  for (const Fill fill : find_op("stochastic_cast_to_bf16")->fills) {
    for (const bool fresh : {true, false}) {
      CAPTURE(name(fill));
      CAPTURE(fresh);
      const Result right = rounded(own, std::string(name(fill)), true, fresh);
      CAPTURE(right.reason);
      CHECK(right.status == Status::pass);
    }
  }
  const auto fails = [&](const auto& draw, const char* part) {
    const Result wrong = rounded(draw, "training");
    CAPTURE(wrong.reason);
    CHECK(wrong.status == Status::fail);
    CHECK(wrong.reason.find(part) != std::string::npos);
    const Result in_bits = rounded(draw, "training", false);
    REQUIRE(in_bits.divergence.has_value());
    CHECK(in_bits.divergence->order.find("in no legal order") == 0);
  };
  const auto nearest = [](std::uint64_t, std::uint64_t, std::uint32_t bits) {
    return 0x7FFFU + (bits >> 16U & 1U);
  };
  const auto once_per_call = [&](std::uint64_t call, std::uint64_t, std::uint32_t) {
    return word(call) >> 16U;
  };
  const auto of_4_bits = [&](std::uint64_t, std::uint64_t i, std::uint32_t) {
    return word(i) >> 28U << 12U;
  };
  fails(nearest, "standard deviations");
  fails(once_per_call, "standard deviations");
  fails(of_4_bits, "standard deviations");
  fails([](std::uint64_t, std::uint64_t, std::uint32_t) { return 0U; }, "standard deviations");
  fails(
      [&](std::uint64_t, std::uint64_t i, std::uint32_t bits) {
        return (bits & 0x7F0000U) == 0 && (bits & 0xFFFFU) != 0 && word(i) % 2 == 0
                   ? 0U - 0x8000U
                   : word(i) >> 16U;
      },
      "its neighbours are ");  // below a power of two
  const Result beyond =
      rounded([](std::uint64_t, std::uint64_t, std::uint32_t) { return 0x20000U; }, "training");
  CHECK(beyond.status == Status::fail);
  CHECK(beyond.reason.find("no legal order") != std::string::npos);
  const Result theirs = rounded(own, "training", false);
  CHECK(theirs.status == Status::fail);
  CHECK(theirs.divergence->order.find("within the bound of any legal order") == 0);
}

TEST_CASE("foreign candidate: may unscale and clip by a quotient within the bound") {
  for (const std::string op : {"unscale", "clip"}) {
    for (const std::string fill : {"training", "wide", "subnormal", "special"}) {
      CAPTURE(op);
      CAPTURE(fill);
      const auto quotient = [&](OpCall& call) {
        find_op(op)->reference(call);
        const float factor = setting_of(call, op, 0);
        if (factor == 0) return;
        for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
          call.get<float>(1)[i] = call.in<float>(0)[i] / (1 / factor);
        }
      };
      const Result strict = of_stranger(op, fill, false, quotient);
      CHECK(strict.status == Status::fail);
      REQUIRE(strict.divergence.has_value());
      CHECK(strict.divergence->order.rfind("within the bound of any legal order", 0) == 0);
      CHECK_FALSE(strict.divergence->exact_value.empty());
      const Result accepted = of_stranger(op, fill, true, quotient);
      CAPTURE(accepted.reason);
      CHECK(accepted.status == Status::pass);
      CHECK(accepted.worst_ratio >= 0.5);
      CHECK(accepted.legal_differences > 0);
      const Result flushed = of_stranger(op, "subnormal", true, [&](OpCall& call) {
        find_op(op)->reference(call);
        for (float& x : call.get<float>(1)) x = std::fabs(x) < 0x1p-126F ? 0 : x;
      });
      CHECK(flushed.status == Status::fail);
      REQUIRE(flushed.divergence.has_value());
      CHECK(flushed.divergence->order.rfind("in no legal order", 0) == 0);
    }
  }
  const Result silent = of_stranger("unscale", "special", true, [&](OpCall& call) {
    find_op("unscale")->reference(call);
    call.get<std::uint32_t>(2)[0] = 0;  // reports no device
  });
  CHECK(silent.status == Status::fail);
  REQUIRE(silent.divergence.has_value());
  CHECK(silent.divergence->order.rfind("in no legal order", 0) == 0);
}

TEST_CASE("foreign candidate: may compute the clip coefficient and a norm in fp32") {
  const auto coefficient = [](OpCall& call) {
    find_op("clip_coef")->reference(call);
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const double limit = call.in<double>(1)[i];
      if (call.in<std::uint32_t>(2)[i] == 0 || !(limit > 0) || std::isinf(limit)) continue;
      const auto norm = static_cast<float>(call.in<double>(0)[i]);
      const float q = static_cast<float>(limit) / (norm + 1e-6F);
      call.get<float>(3)[i] = q < 1 || q != q ? q : 1;
    }
  };
  CHECK(of_stranger("clip_coef", "sweep", false, coefficient).status == Status::fail);
  const Result accepted = of_stranger("clip_coef", "sweep", true, coefficient);
  CAPTURE(accepted.reason);
  CHECK(accepted.status == Status::pass);
  CHECK(accepted.worst_ratio >= 0.5);
  const Result without = of_stranger("clip_coef", "sweep", true, [&](OpCall& call) {
    find_op("clip_coef")->reference(call);
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      if (call.get<float>(3)[i] < 1) call.get<float>(3)[i] *= 1.000001F;
    }
  });
  CHECK(without.status == Status::fail);

  const auto norm = [](OpCall& call) {
    const float p = setting_of(call, "grad_norm_p", 0);
    float most = 0;
    bool nan = false;
    for (const float x : call.in<float>(0)) {
      most = std::max(most, std::fabs(x));
      nan = nan || x != x;
    }
    float sum = 0;
    for (const float x : call.in<float>(0)) sum += std::pow(std::fabs(x) / most, p);
    call.get<double>(1)[0] = nan                             ? NAN
                             : most == 0 || std::isinf(most) ? most
                                                             : most * std::pow(sum, 1 / p);
  };
  for (const std::string fill : {"training", "subnormal", "special"}) {
    CAPTURE(fill);
    const Result strict = of_stranger("grad_norm_p", fill, false, norm);
    CHECK(strict.status == Status::fail);
    REQUIRE(strict.divergence.has_value());
    CHECK(strict.divergence->order.rfind("within the bound of any legal order", 0) == 0);
    const Result legal = of_stranger("grad_norm_p", fill, true, norm);
    CAPTURE(legal.reason);
    CHECK(legal.status == Status::pass);
    CHECK(legal.worst_ratio > 0);
  }
}

TEST_CASE("foreign candidate: must have the only result of every order, with the reason") {
  for (const Op& op : all_ops()) {
    if (op.one_result.empty()) continue;
    CAPTURE(op.name);
    CHECK_FALSE(op.bounds);
    const Result wrong =
        of_stranger(op.name, std::string(name(op.fills.front())), true, [&](OpCall& call) {
          op.reference(call);
          for (std::size_t k = 0; k < op.operands.size(); ++k) {
            if (op.operands[k].access == Access::in || call.view(k).numel < 1) continue;
            const std::int64_t element = std::min<std::int64_t>(2, call.view(k).numel - 1);
            *(static_cast<unsigned char*>(call.view(k).data) +
              element * num_bytes(op.operands[k].dtype)) ^= 1U;
          }
        });
    CHECK(wrong.status == Status::fail);
    REQUIRE(wrong.divergence.has_value());
    CHECK(wrong.divergence->order.find("there is one result, because " + op.one_result) !=
          std::string::npos);
  }
}

TEST_CASE(
    "foreign update: a write to a buffer that the setting does not keep fails, in any order") {
  const Result scribbled = update_of(
      [](OpCall& call) {
        decay_first([](std::int64_t numel) { return numel; })(call);
        if (call.variant() % 2 == 0 && call.numel() > 2)
          call.get<float>(4)[2] += 1;  // no amsgrad, no maximum
      },
      true);
  CHECK(scribbled.status == Status::fail);
  REQUIRE(scribbled.divergence.has_value());
  CHECK(scribbled.divergence->order.find("max_exp_avg_sq[2]") != std::string::npos);
}

}  // namespace op_candidate_test
