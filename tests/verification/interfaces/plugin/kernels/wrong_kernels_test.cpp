// Kernels with transcription errors are judged wrong, each at its place; what a tolerance at one shape says of them is
// printed beside it.

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"
#include "tests/verification/interfaces/plugin/kernels/kernel_rows.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Rules whose results the judge also holds to the bound of any legal order.
bool is_bounded(std::string_view operation) {
  return operation.ends_with("_update") && !operation.starts_with("loss");
}

void check_place(const WrongKernel& row, const Result& result) {
  const std::string said = told(result);
  CAPTURE(said);
  CHECK(result.status == Status::fail);
  CHECK(result.divergence.has_value() != row.operand.empty());
  for (const std::string_view part : row.place) {
    CAPTURE(part);
    CHECK(said.find(part) != std::string::npos);
  }
  if (!result.divergence) return;
  CHECK(result.divergence->buffer == row.operand);
  if (is_bounded(row.operation)) CHECK(result.divergence->order.starts_with("in no legal order"));
}

}  // namespace

TEST_CASE("wrong kernels are judged wrong at their place, which a tolerance at one shape often is not") {
  const std::vector<WrongKernel>& rows = wrong_kernels();
  CHECK(rows.size() >= 20);
  std::vector<std::shared_ptr<const OpCandidate>> candidates;
  std::vector<Closeness> close;
  std::vector<OpCaseSpec> cases;
  for (const WrongKernel& row : rows) {
    const Op* op = find_op(std::string(row.operation));
    candidates.push_back(kernel(row.library, row.kind));
    close.push_back(closeness(*op, *candidates.back()));
    cases.push_back({op, candidates.back().get(), row.fill});
  }
  const std::vector<Result> results = run_op_cases(cases, {});
  std::printf("%-22s%-17s%-25s%-17s%-9s%s\n", "kernel", "error", "operation", "seen in", "allclose",
              "assert_close");
  int wrong = 0, allclose = 0, assert_close = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const WrongKernel& row = rows[i];
    const std::string name(row.kind);
    CAPTURE(name);
    check_place(row, results[i]);
    const std::string seen = row.operand.empty() ? "outside of all" : std::string(row.operand);
    std::printf("%-22s%-17s%-25s%-17s%-9s%s\n", name.c_str(), row.error.data(), row.operation.data(),
                seen.c_str(), close[i].allclose ? "passes" : "fails",
                close[i].assert_close ? "passes" : "fails");
    wrong += results[i].status == Status::fail ? 1 : 0;
    allclose += close[i].allclose ? 1 : 0;
    assert_close += close[i].assert_close ? 1 : 0;
  }
  std::printf("judged wrong: %d of %d; passed by allclose: %d, by assert_close: %d\n", wrong,
              static_cast<int>(rows.size()), allclose, assert_close);
  CHECK(wrong == static_cast<int>(rows.size()));
}

TEST_CASE("the libraries of wrong kernels are right without their errors") {
  std::map<std::string_view, std::set<std::string_view>> operations;
  for (const WrongKernel& row : wrong_kernels()) operations[row.library].insert(row.operation);
  for (const auto& library : operations) {
    const std::shared_ptr<const OpCandidate> right = kernel(library.first, "right");
    for (const std::string_view operation : library.second) {
      CAPTURE(operation);
      const Op* op = find_op(std::string(operation));
      CHECK(closeness(*op, *right).allclose);
      const Fill fill = std::ranges::count(op->fills, Fill::special) > 0 ? Fill::special : op->fills.front();
      CHECK(run_op_cases({{op, right.get(), fill}}, {}).front().status == Status::pass);
    }
  }
}
