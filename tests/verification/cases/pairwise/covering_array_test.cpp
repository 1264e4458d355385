#include "verification/cases/pairwise/covering_array.hpp"

#include <doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "common/base/philox.hpp"
#include "tests/verification/cases/pairwise/coverage_support.hpp"
#include "verification/cases/pairwise/visited.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

namespace {

std::vector<std::string> ids_of(const std::vector<CoveredRow>& rows) {
  std::vector<std::string> ids;
  for (const CoveredRow& row : rows) ids.push_back(row.spec.id());
  return ids;
}

/// Counted from the ids alone, as a user runs them.
CombinationTable visited_by(const std::vector<CoveredRow>& rows) {
  CombinationTable table;
  for (const CoveredRow& row : rows) {
    const auto spec = parse_case_id(row.spec.id());
    REQUIRE(spec.has_value());
    const std::vector<int> values = values_of({config_of({}, *spec), *spec});
    CAPTURE(row.spec.id());
    CHECK(values == row.values);
    table.mark_all(values, Strength::triples);
  }
  return table;
}

int numbered(const CombinationTable& table, const std::string& name) {
  for (int i = 0; i < table.num_values(); ++i) {
    if (table.name_of(i) == name) return i;
  }
  FAIL("there is no value " << name);
  return -1;
}

}  // namespace

TEST_CASE("nightly: covering array: every possible pair is in a row, as its ids confirm") {
  const CombinationTable& possible = tiny_rows().possible.table();
  const CombinationTable visited = visited_by(tiny_rows().pairs());
  MESSAGE(tiny_rows().pairs().size() << " rows, " << visited.marked_values() << " values, "
                                     << visited.marked_pairs() << " pairs");
  CHECK(visited.marked_values() == possible.marked_values());
  for (int a = 0; a < possible.num_values(); ++a) {
    for (int b = a; b < possible.num_values(); ++b) {
      if (possible.marked(a, b) && !visited.marked(a, b))
        FAIL_CHECK(possible.name_of(a) << ", " << possible.name_of(b));
    }
  }
  CHECK(visited.marked_pairs() == possible.marked_pairs());
  CHECK(visited.marked_triples() < possible.marked_triples());  // an array of triples has all
  CHECK(possible.marked_values() > 140);
  CHECK(possible.marked_pairs() > 10000);
}

TEST_CASE("covering array: every possible triple of a group is in a row, as its ids confirm") {
  const CombinationTable& possible = tiny_rows().possible.table();
  const CombinationTable visited = visited_by(tiny_rows().triples());
  MESSAGE(tiny_rows().triples().size() << " rows, " << visited.marked_pairs() << " pairs, "
                                       << visited.marked_triples() << " triples");
  for (std::size_t i = 0; i < possible.size(); ++i) {
    if (visited.marked(i) == possible.marked(i)) continue;
    for (const int member : possible.members(i)) CAPTURE(possible.name_of(member));
    FAIL_CHECK("possible: " << possible.marked(i) << ", visited: " << visited.marked(i));
  }
  for (std::size_t group = 0; group < axis_groups().size(); ++group)
    CHECK(possible.marked_triples(group) > 30);
}

TEST_CASE("nightly: covering array: no row is superfluous, and a seed gives the same rows") {
  const TinyRows& tiny = tiny_rows();
  const std::vector<std::string> ids = ids_of(tiny.pairs());
  CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == ids.size());
  CHECK(ids == ids_of(covering_array(tiny.space, tiny.possible, Strength::pairs, 1)));
  CHECK(ids != ids_of(covering_array(tiny.space, tiny.possible, Strength::pairs, 2)));
  for (const std::size_t left_out : {std::size_t{0}, ids.size() / 2, ids.size() - 1}) {
    std::vector<CoveredRow> fewer = tiny.pairs();
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
    CHECK(visited_by(fewer).marked_pairs() < tiny.possible.table().marked_pairs());
  }
}

TEST_CASE("covering array: strength one has every value, in far fewer rows") {
  const RunSpace space({}, "byte_gpt_tiny");
  const PossibleCombinations possible(space, Strength::values);
  // The search of pairs finds no further value.
  CHECK(possible.table().marked_values() == tiny_rows().possible.table().marked_values());
  const std::vector<CoveredRow> rows = covering_array(space, possible, Strength::values, 1);
  CHECK(visited_by(rows).marked_values() == possible.table().marked_values());
  CHECK(rows.size() < 30);
}

TEST_CASE("nightly: covering array: impossible pairs are refused or have no effect") {
  const CombinationTable& possible = tiny_rows().possible.table();
  const auto can = [&](const std::string& a, const std::string& b) {
    return possible.marked(numbered(possible, a), numbered(possible, b));
  };
  CHECK_FALSE(can("dtype:fp16", "rounding:stochastic"));
  CHECK_FALSE(can("dtype:fp32", "rounding:stochastic"));
  CHECK_FALSE(can("tp:2", "norm:chunk1024"));
  CHECK_FALSE(can("tp:4", "model:odd"));
  CHECK_FALSE(can("layout:fsdp2", "norm:chunk1024"));
  CHECK_FALSE(can("cp:2", "dtype:fp16"));
  CHECK_FALSE(can("sum:native", "mode:free"));
  CHECK_FALSE(can("implementation:host", "mode:whole"));
  CHECK_FALSE(can("nesterov:on", "dampening:on"));
  CHECK_FALSE(can("rule:sgd", "eps:large"));
  CHECK_FALSE(can("rule:lion", "amsgrad:off"));
  CHECK_FALSE(can("rule:lamb", "amsgrad:on"));
  CHECK(can("rule:lamb", "bias_correction:off"));
  CHECK(can("rule:lamb", "offload:0.5"));
  CHECK(can("rule:lamb", "exp_avg_sq_dtype:e4m3"));
  CHECK_FALSE(can("world:self", "windows:on"));
  CHECK_FALSE(can("micro_batches:1", "order:strided"));
  CHECK_FALSE(can("stage:2", "persistent:37"));
  CHECK_FALSE(can("loss_scaler:dynamic", "dtype:bf16"));
  CHECK_FALSE(can("on_nonfinite:error", "overflow:middle"));
  CHECK(can("persistent:37", "overlap:on"));
  CHECK(can("sum:binned", "instances:3"));
  CHECK(can("sum:native", "instances:3"));
  CHECK(can("state:16777217", "decay:cosine"));
  CHECK(can("state:1001", "rounding:stochastic"));
  CHECK(can("state:1001", "decay:table"));
  CHECK_FALSE(can("state:16777217", "decay:table"));
  CHECK_FALSE(can("warmup:on", "decay:table"));
  CHECK(can("warmup_shape:log", "decay:cosine"));
  CHECK(can("tp:4", "model:long"));
  CHECK(can("cp:2", "tp:4"));
  CHECK(can("empty_rank:yes", "stage:3"));
  CHECK_FALSE(can("empty_rank:yes", "stage:0"));
  CHECK_FALSE(can("empty_rank:yes", "layout:greedy"));
  CHECK_FALSE(can("empty_rank:yes", "bucket:262144"));
  CHECK(can("windows:params", "layout:megatron"));
  CHECK(can("loss_scaler:constant", "stage:3"));
  CHECK(can("offload:0.5", "exp_avg_dtype:e4m3"));
  CHECK(can("offload_place:file", "exp_avg_sq_dtype:fp16"));
  CHECK(can("offload_chunk:37", "master_dtype:bf16"));
}

TEST_CASE("covering array: a triple is impossible where its three pairs are possible") {
  const CombinationTable& possible = tiny_rows().possible.table();
  const int empty = numbered(possible, "empty_rank:yes"),
            bucket = numbered(possible, "bucket:4096");
  const auto can = [&](const std::string& world) {
    const std::vector<int> wanted = {numbered(possible, world), bucket, empty};
    for (std::size_t i = possible.first_triple(0); i < possible.first_triple(1); ++i) {
      if (possible.members(i) == wanted) return possible.marked(i);
    }
    FAIL("there is no such triple");
    return false;
  };
  // A bucket of four chunks leaves a rank of five or more without any.
  for (const char* world : {"world:threads:2", "world:threads:3", "world:threads:4"}) {
    CAPTURE(world);
    CHECK(possible.marked(numbered(possible, world), bucket));
    CHECK(possible.marked(numbered(possible, world), empty));
    CHECK_FALSE(can(world));
  }
  CHECK(possible.marked(bucket, empty));
  CHECK(can("world:threads:6"));
  CHECK(can("world:threads:8"));
}

TEST_CASE("pairwise counts: one case and two cases, by hand") {
  const auto coverage = [](std::initializer_list<const char*> ids) {
    std::vector<CaseSpec> cases;
    for (const char* id : ids) cases.push_back(*parse_case_id(id));
    return coverage_of({}, cases);
  };
  // All settings except those that have no effect: transport, persistent, the scaler's seven,
  // momentum's three, warmup_shape, wsd_shape, schedule_unit, first_is_zero, five of offload,
  // eleven of scales, fourteen of muon.
  const char* first = "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1";
  const Coverage one = coverage({first});
  const auto all = static_cast<std::int64_t>(axes().size());
  const std::int64_t n = all - 46;
  CHECK(one.visited.marked_values() == n);
  CHECK(one.visited.marked_pairs() == n * (n - 1) / 2);
  // Another stage: one value more, with the n - 1 others.
  const Coverage two = coverage(
      {first, "byte_gpt_tiny/adamw/host/stage1/threads:3/bf16/lockstep/bucket:4096/omp:1"});
  CHECK(two.visited.marked_values() == n + 1);
  CHECK(two.visited.marked_pairs() == n * (n - 1) / 2 + n - 1);
  // Five axes of shards and seven of overflows have an effect; none of scales, and one of offload.
  CHECK(one.visited.marked_triples(0) == 10);
  CHECK(one.visited.marked_triples(1) == 0);
  CHECK(one.visited.marked_triples(2) == 35);
  CHECK(one.visited.marked_triples(3) == 0);
  CHECK(one.visited.marked_triples() == 45);
  CHECK(two.visited.marked_triples() == 45);  // of another stage, which is in no group
}
