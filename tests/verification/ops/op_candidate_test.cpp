// The judge knows nothing of whom it judges: any candidate has ids, verdicts of its own, and no expectation to find.

#include <doctest.h>

#include "common/base/error.hpp"
#include "verification/ops/op_case.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// Somebody else's clip_value, and nothing more.
class Guest final : public OpCandidate {
 public:
  explicit Guest(OpFunction run, std::string why_not = "")
      : run_(std::move(run)), why_not_(std::move(why_not)) {}
  std::string id() const override { return "guest/one"; }
  std::string side() const override { return "guest one"; }
  Twin kind() const override { return Twin::host; }
  bool has(const Op& op) const override { return op.name == "clip_value"; }
  std::string obstacle(const Op&) const override { return why_not_; }
  OpFunction function(const Op&, const std::string&) const override { return run_; }

 private:
  OpFunction run_;
  std::string why_not_;
};

Result judged(const Guest& guest) {
  return run_op_cases(op_cases("op/clip_value/guest/one/fill:ties", {&guest}), {}).front();
}

}  // namespace

TEST_CASE("a candidate that is given has ids beside those of this program") {
  const Guest guest(find_op("clip_value")->host);
  std::vector<std::string> guests;
  for (const OpCaseSpec& spec : op_cases("op/*", {&guest})) {
    if (spec.candidate == &guest) guests.push_back(spec.id());
  }
  CHECK(guests.size() == find_op("clip_value")->fills.size());
  CHECK(guests.front() == "op/clip_value/guest/one/fill:exact-sum");
  CHECK_THROWS_AS(op_cases("op/clip/guest/one/fill:ties", {&guest}), Error);  // it has no such operation
  CHECK_THROWS_AS(op_cases("op/clip_value/guest/two/fill:ties", {&guest}), Error);  // nobody is called that
  CHECK_THROWS_AS(op_cases("op/clip_value/guest/one/fill:ties"), Error);            // and nobody was given
}

TEST_CASE("a candidate that is given is judged as any other") {
  const Guest right(find_op("clip_value")->host);
  const Result passed = judged(right);
  CHECK(passed.status == Status::pass);
  CHECK(passed.side == "guest one");
  CHECK(passed.compared > 0);
  const Guest wrong([](OpCall&) {});
  CHECK(judged(wrong).status == Status::fail);
  const Guest absent(find_op("clip_value")->host, "it is out");
  const Result skipped = judged(absent);
  CHECK(skipped.status == Status::skipped);
  CHECK(skipped.reason == "it is out");
}

TEST_CASE("a verdict of the candidate's own names the call") {
  const Guest dies([](OpCall&) { throw CandidateFailure(Status::crashed, "it died"); });
  const Result result = judged(dies);
  CHECK(result.status == Status::crashed);
  CHECK(result.reason.rfind("it died (numel 0, offset 0, ", 0) == 0);
}

TEST_CASE("a candidate runs before the reference has computed the call") {
  Op op = *find_op("clip_value");
  int calls = 0;
  int references = 0;
  op.reference = [&](OpCall& call) {
    CHECK(calls == ++references);
    find_op("clip_value")->reference(call);
  };
  const Guest guest([&](OpCall& call) {
    ++calls;
    find_op("clip_value")->host(call);
  });
  CHECK(run_op_cases({{&op, &guest, Fill::ties}}, {}).front().status == Status::pass);
  CHECK(calls > 0);
  CHECK(calls == references);
}
