// Repeated results are tampering; results that are merely wrong, in any way, are not.

#include <doctest.h>

#include <cstring>
#include <map>
#include <tuple>

#include "verification/compare/compare.hpp"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/ops/op_case.hpp"

namespace repetition_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// A plug-in that may have memorised results.
class Suspect final : public OpCandidate {
 public:
  explicit Suspect(OpFunction run) : run_(std::move(run)) {}
  std::string id() const override { return "user/one"; }
  std::string side() const override { return "user one"; }
  Implementation kind() const override { return Implementation::host; }
  bool has(const Op&) const override { return true; }
  std::string obstacle(const Op&) const override { return ""; }
  OpFunction function(const Op&, const std::string&) const override { return run_; }
  bool may_remember() const override { return true; }

 private:
  OpFunction run_;
};

Result judged(const Op& op, Fill fill, const OpFunction& run) {
  const Suspect suspect(run);
  return run_op_cases({{&op, &suspect, fill}}, {}).front();
}

/// Every output element that the implementation wrote, changed by `wrong`, which gets its bits.
using Wrong =
    std::function<std::uint64_t(const TensorView&, std::int64_t element, std::uint64_t bits)>;
OpFunction implementation_but(const Op& op, const Wrong& wrong) {
  return [&op, wrong](OpCall& call) {
    const OpCall before = call.fresh();
    op.host(call);
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (op.operands[k].access == Access::in) continue;
      const TensorView view = call.view(k);
      for (std::int64_t i = 0; i < view.numel; ++i) {
        if (element_bits(view, i) == element_bits(before.view(k), i)) continue;
        const std::uint64_t bits = wrong(view, i, element_bits(view, i));
        std::memcpy(static_cast<std::byte*>(view.data) + i * num_bytes(view.dtype), &bits,
                    static_cast<std::size_t>(num_bytes(view.dtype)));
      }
    }
  };
}

std::uint64_t sign_of(const TensorView& view) { return 1ULL << (8 * num_bytes(view.dtype) - 1); }

/// Common mistakes, each in every result.
std::map<std::string, Wrong> mistakes() {
  return {
      {"one ulp off", [](const TensorView&, std::int64_t, std::uint64_t bits) { return bits ^ 1; }},
      {"the other sign", [](const TensorView& view, std::int64_t,
                            std::uint64_t bits) { return bits ^ sign_of(view); }},
      {"flushed to zero of its sign", [](const TensorView& view, std::int64_t,
                                         std::uint64_t bits) { return bits & sign_of(view); }},
      {"not written", [](const TensorView&, std::int64_t, std::uint64_t) { return ~0ULL; }},
      {"behind the last full vector",
       [](const TensorView& view, std::int64_t i, std::uint64_t bits) {
         return i >= view.numel - view.numel % 8 ? ~0ULL : bits;
       }}};
}

/// The fills that show most of a repetition with the fewest cases: patterns recur, the others do
/// not.
bool is_looked_at(const Op& op, Fill fill) {
  const bool dense = fill == Fill::subnormal || fill == Fill::patterns || fill == Fill::sweep;
  return dense || op.fills.size() == 1;
}

/// Returns the results of an earlier call with equal inputs.
OpFunction by_heart(const Op& op) {
  using Key = std::tuple<std::int64_t, int, int, int>;
  auto known = std::make_shared<std::map<Key, std::vector<std::vector<std::byte>>>>();
  return [&op, known](OpCall& call) {
    const CallShape& s = call.shape();
    const auto [place, is_new] = known->try_emplace({s.numel, s.offset, s.variant, s.num_threads});
    if (is_new) op.host(call);
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const TensorView view = call.view(k);
      auto* memory = static_cast<std::byte*>(view.data);
      if (is_new) place->second.emplace_back(memory, memory + view.num_bytes());
      if (!is_new && op.operands[k].access != Access::in && view.numel > 0)
        std::memcpy(memory, place->second[k].data(), place->second[k].size());
    }
  };
}

}  // namespace

TEST_CASE("nightly: repetition: no wrong operation of a plug-in counts as tampering") {
  int failed_cases = 0;
  for (const std::string& name : plugin_operations()) {
    const Op& op = *find_op(name);
    for (const Fill fill : op.fills) {
      if (!is_looked_at(op, fill)) continue;
      for (const auto& [mistake, wrong] : mistakes()) {
        const Result result = judged(op, fill, implementation_but(op, wrong));
        CAPTURE(name);
        CAPTURE(zeroproof::verification::name(fill));
        CAPTURE(mistake);
        CAPTURE(result.reason);
        CHECK(result.status != Status::tampered);
        failed_cases += result.status == Status::fail ? 1 : 0;
      }
    }
  }
  CHECK(failed_cases > 80);
}

TEST_CASE("repetition: memorised results are tampering, in long calls and in single results") {
  for (const char* name : {"clip", "adamw_update", "cast_to_e4m3", "grad_norm_p", "clip_coef"}) {
    CAPTURE(name);
    const Op& op = *find_op(name);
    const Fill fill = op.fills.size() == 1 ? op.fills.front() : Fill::training;
    CHECK(judged(op, fill, op.host).status == Status::pass);
    const Result result = judged(op, fill, by_heart(op));
    CAPTURE(result.reason);
    CHECK(result.status == Status::tampered);
    CHECK(result.reason.find("repeat, bit for bit, those") != std::string::npos);
    CHECK(result.differing > 0);
    CHECK(result.divergence.has_value());
  }
}

TEST_CASE("repetition: equal results of a function that ignores a setting are no tampering") {
  const Op& op = *find_op("adamw_update");
  const Result result = judged(op, Fill::training, [&](OpCall& call) {
    if (call.variant() > 0) return;  // as if there were no work
    op.host(call);
  });
  CHECK(result.status == Status::fail);
}

}  // namespace repetition_test
