// A suite registered only in this file: selected, run, listed, reported and read back like the
// others.

#include <doctest.h>

#include "common/base/error.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/report/group_table.hpp"
#include "verification/training/training_suite.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

constexpr const char* ids_of_dice[] = {"dice/red/one", "dice/red/six", "dice/blue/one",
                                       "dice/blue/six"};

class Dice final : public Suite {
 public:
  std::string name() const override { return "dice"; }

  std::vector<std::string> ids(const VerifyOptions&, const std::string& pattern) const override {
    using Parts = std::vector<std::string>;
    const IdGrammar grammar = {
        {"suite", [](const Parts&) { return Parts{"dice"}; }},
        {"colour",
         [](const Parts&) {
           return Parts{"red", "blue", "green"};
         }},
        {"throw", [](const Parts& before) {
           return before[1] == "green" ? Parts{} : Parts{"one", "two", "six"};
         }}};
    if (pattern.empty()) return {};
    return select_ids(pattern, grammar, [] {
      return std::vector<std::string>(std::begin(ids_of_dice), std::end(ids_of_dice));
    });
  }

  void run(const VerifyOptions&, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    for (const std::string& id : ids) {
      progress(0.5, id);
      Result& result = report.results.emplace_back();
      result.id = id;
      result.suite = name();
      result.group = id_parts(id)[1];
      result.side = "table";
      result.exactness = "drawn";
      result.compared = 1;
      result.replay = "zeroproof replay " + id;
      result.status = id_parts(id)[2] == "six" ? Status::fail : Status::pass;
      if (result.status == Status::pass) continue;
      result.differing = 1;
      result.divergence.emplace().call = "one throw";
      result.divergence->buffer = "die";
      result.divergence->what = "differs from the reference";
      result.divergence->candidate_value = "6";
      result.divergence->reference_value = "1";
      result.reason = describe(*result.divergence);
    }
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return group_table(report, name(), "dice", "colour", style.colour);
  }
};

const Dice dice;
const Suites suites = {&training_suite(), &dice};

std::vector<std::string> selected(const std::string& pattern) { return dice.ids({}, pattern); }

}  // namespace

TEST_CASE("suites: a new suite only needs to be registered") {
  VerifyOptions options;
  options.patterns = {"dice/red", "dice/*/six", "dice/red/six"};
  const Selection selection = select_cases(options, suites);
  CHECK(selection.ids() ==
        std::vector<std::string>{"dice/red/one", "dice/red/six", "dice/blue/six"});
  double last = 0;
  const RunReport report =
      run_selection(options, selection, [&](double fraction, const std::string&) {
        CHECK(fraction >= last);
        CHECK(fraction <= 1);
        last = fraction;
      });
  CHECK(last == 1.0);
  CHECK(report.count(Status::pass) == 1);
  CHECK(report.count(Status::fail) == 2);
  CHECK(exit_code(report, false) == 1);

  const std::string text = to_text(report, {});
  for (const char* part : {"\ndice: table against the reference\n", "\nred ", "drawn", "DIFFER",
                           "FAIL dice/blue/six\n", "first at  die  one throw\n", "got 6  want 1\n",
                           "replay    zeroproof replay dice/blue/six\n", "1 pass, 2 fail"}) {
    CAPTURE(text);
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  }
  const std::vector<Result> back = results_from_json(to_json(report));
  REQUIRE(back.size() == 3);
  CHECK(back[1].group == "red");
  CHECK(failure_line(back[1]) == "fail: die differs from the reference, one throw, got 6, want 1");
  CHECK(to_junit(report, false).find("<testsuite name=\"blue\" tests=\"1\" failures=\"1\"") !=
        std::string::npos);
}

TEST_CASE("suites: a pattern without a match is kept, and completed if its complete id exists") {
  VerifyOptions options;
  options.patterns = {"dice/red", "dice/green", "dice/*/seven"};
  const Selection selection = select_cases(options, suites);
  CHECK(selection.size() == 2);
  CHECK(selection.unmatched == std::vector<std::string>{"dice/green", "dice/*/seven"});
  CHECK(completed_id(options, "dice/green", suites) == "dice/green/one");
  CHECK(completed_id(options, "dice/green/", suites) == "dice/green/one");
  for (const char* pattern :
       {"dice/*/seven", "dice", "dice/rad", "dice/red/one/more", "nope/red"}) {
    CAPTURE(pattern);
    CHECK(completed_id(options, pattern, suites).empty());
  }
}

TEST_CASE("suites: runs without patterns, and patterns of no other suite, select the first one") {
  CHECK(&suite_meant("dice", suites) == &dice);
  CHECK(&suite_meant("dice/red", suites) == &dice);
  CHECK(&suite_meant("dicey", suites) == &training_suite());
  CHECK(&suite_meant("*", suites) == &training_suite());
  const Selection usual = select_cases({}, suites);
  REQUIRE(usual.parts.size() == 1);
  CHECK(usual.parts[0].first == &training_suite());
}

TEST_CASE("id patterns: one grammar for all suites") {
  CHECK(selected("dice").size() == 4);
  CHECK(selected("dice/").size() == 4);
  CHECK(selected("dice/red/").size() == 2);
  CHECK(selected("dice/red/two") ==
        std::vector<std::string>{"dice/red/two"});  // complete, if not usual
  CHECK(selected("dice/green/any").size() == 1);    // that part accepts any text
  CHECK(selected("dice/green").empty());
  CHECK(selected("dice/r*").size() == 2);
  CHECK(selected("dice/*/seven").empty());
  CHECK(selected("dice/red/one/more").empty());
  const auto refusal = [](const char* pattern) -> std::string {
    try {
      selected(pattern);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal("dice/rad").find("colour 'rad' does not exist") == 0);
  CHECK(refusal("dice/rad").find("did you mean red?") != std::string::npos);
  CHECK(refusal("dice/red/sx").find("did you mean six?") != std::string::npos);
  CHECK(refusal("dice//six").find("colour ''") == 0);
  CHECK(refusal("dice/rad/*").find("did you mean red?") != std::string::npos);
  CHECK(refusal("dice/r*/rad").empty());  // a wildcard may also match the slash
}

TEST_CASE("id patterns: numbers inside parts") {
  CHECK(number_after("stage2", "stage") == 2);
  CHECK(number_after("omp:-1", "omp:") == -1);
  for (const char* part :
       {"stage", "stage2x", "stage 2", "omp:2", "2", "", "stage99999999999999999999"}) {
    CHECK_MESSAGE(!number_after(part, "stage").has_value(), part);
  }
}
