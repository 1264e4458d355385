// The suite of single collectives: its ids, its refusals, and all of its usual cases pass.

#include "verification/comm/comm_suite.hpp"

#include <doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/complaint.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/comm/comm_case.hpp"
#include "verification/comm/comm_round.hpp"
#include "verification/comm/comm_run.hpp"

namespace comm_suite_test {

using namespace zeroproof;
using namespace zeroproof::verification;
using zeroproof_test::complaint;
using zeroproof_test::has;

TEST_CASE("comm: ids are complete, and every usual id selects its case") {
  std::set<std::string> ids, collectives;
  for (const CommCaseSpec& spec : comm_cases("comm")) {
    CHECK(ids.insert(spec.id()).second);
    collectives.insert(std::string(name(spec.op)));
    const std::vector<CommCaseSpec> again = comm_cases(spec.id());
    REQUIRE(again.size() == 1);
    CHECK(again.front().id() == spec.id());
  }
  CHECK(collectives.size() == 10);
  const CommCaseSpec elsewhere = comm_cases("comm/split/threads:2+3+1/empty/scattered").front();
  CHECK(elsewhere.world.size == 6);
  CHECK(elsewhere.world.hosts == std::vector<int>{2, 3, 1});
  CHECK(comm_cases("comm/all_reduce-or/copies:2/equal/adjacent").front().transport ==
        CommTransport::copies);
}

TEST_CASE("comm: impossible cases are refused") {
  const auto refused = [](const std::string& id, const std::string& says) {
    const std::string text = complaint([&] { comm_cases(id); });
    CAPTURE(text);
    CHECK(has(text, says));
  };
  refused("comm/all_gathr/self/equal/adjacent", "did you mean all_gather?");
  refused("comm/all_gather/self/equal/apart", "places 'apart'");
  refused("comm/all_gather/self/some/adjacent", "lengths 'some'");
  refused("comm/all_gather/threads:65/equal/adjacent", "more than 64 ranks");
  refused("comm/all_gather/threads:1+x/equal/adjacent", "'threads:1+x' has a host");
  for (const char* ranks : {"copies:1+2", "copies:", "nccl:0", "nccl:65"})
    refused("comm/all_gather/" + std::string(ranks) + "/equal/adjacent", "usable number of ranks");
  refused("comm/all_reduce-or/nccl:3/equal/adjacent", "no such collective");
  refused("comm/shared_window/self/equal/scattered", "places 'scattered'");
  for (const char* op : {"sum", "max", "or"})
    refused("comm/all_reduce-" + std::string(op) + "/self/unequal/adjacent", "lengths 'unequal'");
}

TEST_CASE(
    "comm: rounds with empty parts have one with nothing, and one in which rank 0 has nothing") {
  const auto has_round = [](const auto& fits) {
    const std::vector<CommRound> rounds = rounds_of(CommOp::all_gather, 3, 1);
    return std::ranges::any_of(rounds, fits);
  };
  const auto numel = [](const CommRound& round, int from) {
    return part_numel(round, CommParts::empty, from, 0);
  };
  CHECK(has_round([&](const CommRound& round) {
    return numel(round, 0) == 0 && numel(round, 1) > 0 && numel(round, 2) == 0;
  }));
  CHECK(has_round([&](const CommRound& round) {
    return numel(round, 0) == 0 && numel(round, 1) == 0 && numel(round, 2) == 0;
  }));
  for (const std::int64_t shortest : {1, 2, 7, 64, 1025}) {
    CAPTURE(shortest);
    CHECK(has_round([&](const CommRound& round) {
      return round.numel == shortest && numel(round, 0) > 0 && numel(round, 1) == 0;
    }));
  }
}

TEST_CASE("comm: the bytes of every rank and round depend on the seed") {
  const CommCaseSpec spec = comm_cases("comm/all_gather/threads:3/equal/adjacent").front();
  const std::vector<CommRound> rounds = rounds_of(spec.op, 3, 1), others = rounds_of(spec.op, 3, 2);
  std::set<CommBytes> all;
  std::size_t long_ones = 0;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].numel < 64) continue;  // short parts may be the same by chance
    for (int rank = 0; rank < 3; ++rank) {
      all.insert(blocks_of(spec, rounds[i], rank).front().after);
      all.insert(blocks_of(spec, others[i], rank).front().after);
      long_ones += 2;
    }
  }
  CHECK(all.size() == long_ones);
}

TEST_CASE("comm: the usual cases pass, and others with more ranks") {
  VerifyOptions options;
  options.patterns = {"comm",
                      "comm/all_gather/threads:8/empty/scattered",
                      "comm/all_to_all/threads:5/unequal/scattered",
                      "comm/all_to_all/threads:2/empty/adjacent",
                      "comm/broadcast/threads:8/unequal/scattered",
                      "comm/all_reduce-sum/threads:8/empty/adjacent",
                      "comm/split/threads:2+3/empty/adjacent",
                      "comm/shared_window/threads:5/empty/adjacent"};
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  CHECK(report.results.size() > 150);
  for (const Result& result : report.results) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.compared > 0);
  }
  CHECK(has(comm_suite().table(report, {}), " against their definitions\n"));
}

TEST_CASE("comm: ranks on absent devices or in no job are skipped, with the reason") {
  const auto reason = [](const std::string& id) {
    const Result result = judge_comm(comm_cases(id).front(), 1, 10, "");
    CHECK(result.status == Status::skipped);
    return result.reason;
  };
  CHECK(has(reason("comm/all_gather/mpi:3/equal/adjacent"), "mpirun -n 3"));
  if (!device_answers()) CHECK_FALSE(reason("comm/all_gather/copies:3/equal/adjacent").empty());
}

TEST_CASE("comm: a case that cannot run in this program is skipped, with the reason") {
  const Result result = judge_comm(comm_cases("comm/all_gather/threads:3/equal/adjacent").front(),
                                   1, 10, "do-nothing");
  CHECK(result.status == Status::skipped);
  CHECK(has(result.reason, "zeroproof-faults"));
}

}  // namespace comm_suite_test
