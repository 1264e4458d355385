// The operations of muon (R27, R28) against the oracle, on every call of the harness; bounds of other orders.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/contracts/newton_schulz.hpp"
#include "cuda/host/operations.hpp"
#include "oracle.h"
#include "oracle_settings.hpp"
#include "reference/operations.hpp"
#include "verification/compare/compare.hpp"
#include "verification/ops/op_case.hpp"

namespace muon_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// The named settings of a call, as a candidate of another program gets them.
class Named {
 public:
  explicit Named(const Op& op, const OpCall& call) {
    for (const OpSetting& setting : op.settings(call))
      std::visit([&](auto value) { values_[setting.name] = static_cast<double>(value); },
                 setting.value);
  }
  double real(const std::string& name) const { return values_.at(name); }
  int whole(const std::string& name) const { return static_cast<int>(values_.at(name)); }
  std::size_t size(const std::string& name) const {
    return static_cast<std::size_t>(values_.at(name));
  }

 private:
  std::map<std::string, double> values_;
};

using OracleCall = void (*)(const Named&, OpCall&);

void product(const Named& s, OpCall& call) {
  oracle_matrix_product(s.whole("factors") == 0 ? 1 : 0, s.size("rows"), s.size("columns"),
                        s.size("inner"), call.in<float>(0).data(), call.in<float>(1).data(),
                        call.get<float>(2).data());
}

void newton_schulz(const Named& s, OpCall& call) {
  std::vector<double> polynomials;
  for (int k = 0; k < s.whole("steps"); ++k) {
    const QuinticPolynomial p =
        polynomial_of(static_cast<NewtonSchulzSet>(s.whole("coefficients")), k);
    polynomials.insert(polynomials.end(), {p.a, p.b, p.c});
  }
  const oracle_newton_schulz_options options = {
      polynomials.data(), s.whole("steps"), s.whole("form"),        s.whole("factors") == 0 ? 1 : 0,
      s.whole("floor"),   s.real("eps"),    s.whole("rounds_first")};
  oracle_newton_schulz(&options, s.size("rows"), s.size("columns"), call.in<float>(0).data(),
                       call.get<float>(1).data());
}

void momentum(const Named& s, OpCall& call) {
  oracle_hyper hyper{};
  hyper.rule = oracle_rule_muon;
  hyper.beta1 = hyper.beta2 = 0;
  hyper.eps = 1e-8;
  hyper.momentum = s.real("momentum");
  hyper.nesterov = s.whole("nesterov");
  hyper.heavy_ball = s.whole("heavy_ball");
  oracle_scalars scalars{};
  REQUIRE(oracle_step_scalars(&hyper, s.whole("t"), 0, 1, &scalars) == 1);
  oracle_muon_momentum(s.whole("nesterov"), s.whole("maximize"), &scalars, call.in<float>(0).data(),
                       call.get<float>(1).data(), call.get<float>(2).data(),
                       static_cast<std::size_t>(call.numel()));
}

void step_size(const Named& s, OpCall& call) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
    const std::uint32_t rows = call.in<std::uint32_t>(0)[i], columns = call.in<std::uint32_t>(1)[i];
    const bool refused = rows == 0 || columns == 0;
    call.get<std::uint32_t>(3)[i] = refused ? 1 : 0;
    call.get<float>(2)[i] =
        refused ? 0
                : oracle_muon_step_size(s.whole("scale"), s.real("scale_factor"),
                                        static_cast<float>(s.real("scalar.lr")), rows, columns);
  }
}

void update(const Named& s, OpCall& call) {
  oracle_scalars scalars{};
  scalars.lr_weight_decay = static_cast<float>(s.real("scalar.lr_weight_decay"));
  scalars.has_decay = static_cast<std::uint32_t>(s.whole("scalar.has_decay"));
  oracle_muon_update(&scalars, static_cast<float>(s.real("step_size")), call.in<float>(0).data(),
                     call.get<float>(1).data(), static_cast<std::size_t>(call.numel()));
}

struct Compared {
  const char* name;
  OracleCall oracle;
  std::int64_t largest;  ///< calls above are left to the comparison of implementations
};

constexpr Compared compared[] = {{"matrix_product", product, 1025},
                                 {"newton_schulz", newton_schulz, 400},
                                 {"muon_momentum", momentum, 5000},
                                 {"muon_step_size", step_size, 5000},
                                 {"muon_update", update, 5000}};

}  // namespace

TEST_CASE("muon: the reference has the oracle's bits on every call of the harness") {
  for (const Compared& one : compared) {
    const Op* op = find_op(one.name);
    REQUIRE(op != nullptr);
    CAPTURE(one.name);
    std::int64_t numbers = 0, different = 0;
    for (const Fill fill : op->fills) {
      for (const CallShape& shape : sweep(*op, fill, 3)) {
        if (shape.numel > one.largest || shape.offset != 0) continue;
        const OpCall pristine(*op, shape);
        OpCall want = pristine.fresh(), got = pristine.fresh();
        op->reference(got);
        one.oracle(Named(*op, pristine), want);
        for (std::size_t k = 0; k < op->operands.size(); ++k) {
          if (op->operands[k].access == Access::in) continue;
          const TensorView view = want.view(k);
          const Comparison result = compare(view, got.view(k), 0, view.numel);
          numbers += view.numel;
          different += result.differing;
        }
      }
    }
    CHECK(different == 0);
    CHECK(numbers > 20000);
  }
}

TEST_CASE("muon: step scalars are the oracle's") {
  int different = 0;
  for (std::uint64_t index = 0; index < 20000; ++index) {
    const oracle::Settings c = oracle::valid_muon_settings(index);
    oracle_scalars want{};
    REQUIRE(oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &want) == 1);
    const OptimizerHyper hyper = oracle::to_hyper(c.hyper);
    for (const StepScalars& got :
         {reference::step_scalars(hyper, c.t, c.log2_loss_scale, c.divisor),
          cuda::host::step_scalars(hyper, c.t, c.log2_loss_scale, c.divisor)})
      different += std::memcmp(&got, &want, sizeof got) == 0 ? 0 : 1;
  }
  CHECK(different == 0);
  oracle_hyper damped = oracle::valid_muon_settings(1).hyper;
  damped.dampening = 0.5;
  oracle_scalars scalars{};
  CHECK(oracle_step_scalars(&damped, 1, 0, 1, &scalars) == 0);
  CHECK_THROWS_AS(reference::step_scalars(oracle::to_hyper(damped), 1, 0, 1), Error);
}

TEST_CASE("muon: the harness has tall, wide, odd, single and empty matrices, with every choice") {
  const Op& op = *find_op("newton_schulz");
  std::map<std::string, int> seen;
  for (const CallShape& shape : sweep(op, Fill::training, 1)) {
    const Named s(op, OpCall(op, shape));
    const std::size_t rows = s.size("rows"), columns = s.size("columns");
    seen["tall"] += rows > columns && columns > 1 ? 1 : 0;
    seen["wide"] += columns > rows && rows > 1 ? 1 : 0;
    seen["square"] += rows == columns && rows > 1 ? 1 : 0;
    seen["odd"] += rows % 2 == 1 && columns % 2 == 1 && rows > 1 && columns > 1 ? 1 : 0;
    seen["one row"] += rows == 1 && columns > 1 ? 1 : 0;
    seen["one column"] += columns == 1 && rows > 1 ? 1 : 0;
    seen["empty"] += rows * columns == 0 ? 1 : 0;
    for (const char* choice : {"coefficients", "form", "factors", "floor", "rounds_first"})
      seen[choice + std::to_string(s.whole(choice))] += 1;
  }
  CHECK(seen.size() == 7 + 7 + 3 + 2 + 2 + 2);
  for (const auto& [what, count] : seen) {
    CAPTURE(what);
    CHECK(count > 0);
  }
}

}  // namespace muon_test
