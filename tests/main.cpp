// The main of every test program. A case that asserts nothing would pass whatever the code does, so it fails.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/skip.hpp"

namespace zeroproof::tests {
namespace {

struct Tally {
  bool skipped = false;  ///< the running case
  int num_skipped = 0, num_run = 0;
  std::vector<std::string> without_assertion;
};

Tally& tally() {
  static Tally instance;
  return instance;
}

class AssertionListener final : public doctest::IReporter {
 public:
  explicit AssertionListener(const doctest::ContextOptions& /*options*/) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    name_ = data.m_name;
    tally().skipped = false;
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    Tally& all = tally();
    ++all.num_run;
    if (all.skipped) {
      ++all.num_skipped;
    } else if (stats.numAssertsCurrentTest == 0 && stats.failure_flags == 0) {
      all.without_assertion.push_back(name_);
    }
  }

  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}

 private:
  std::string name_;
};

}  // namespace

void skip_case(const std::string& why) {
  tally().skipped = true;
  std::printf("skipped: %s\n  case: %s\n", why.c_str(),
              doctest::getContextOptions()->currentTest->m_name);
}

}  // namespace zeroproof::tests

REGISTER_LISTENER("assertions", 1, zeroproof::tests::AssertionListener);

int main(int argc, char** argv) {
  const int status = doctest::Context(argc, argv).run();
  const auto& tally = zeroproof::tests::tally();
  for (const std::string& name : tally.without_assertion) {
    std::printf("ERROR: the case \"%s\" asserts nothing\n", name.c_str());
  }
  if (status != 0 || !tally.without_assertion.empty()) return 1;
  return tally.num_run > 0 && tally.num_skipped == tally.num_run ? 77 : 0;
}
