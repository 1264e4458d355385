// The output of zeroproof plan for runs that are small enough to run, compared with the memory and
// the messages of such runs.

#include <doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/plan/accounting_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using nlohmann::json;

/// Two layers, the first with a bias that is split too; the other tensors are whole on every TP
/// rank.
constexpr const char* description = R"(
[[tensor]]
name = "embedding"
shape = [40, 61]
tp = 0
[[tensor]]
name = "block{i}.up"
shape = [50, 64]
tp = 1
repeat = 2
[[tensor]]
name = "block{i}.bias"
shape = [64]
tp = 0
repeat = 2
[[tensor]]
name = "block{i}.norm"
shape = [50]
repeat = 2
[[tensor]]
name = "scale"
shape = []
)";

CutTensors described_tensors() {
  return {{{"embedding", {40, 61}},
           {"block0.up", {50, 64}},
           {"block0.bias", {64}},
           {"block0.norm", {50}},
           {"block1.up", {50, 64}},
           {"block1.bias", {64}},
           {"block1.norm", {50}},
           {"scale", {}}},
          {0, 1, 0, -1, 1, 0, -1, -1}};
}

json classes(const BytesByClass& bytes) {
  json all = json::object();
  for (int c = 0; c < num_memory_classes; ++c) {
    all[std::string(name(static_cast<MemoryClass>(c)))] = bytes[c];
  }
  return all;
}

int index_of(const json& word, int count, const auto& name_of) {
  for (int i = 0; i < count; ++i) {
    if (word == std::string(name_of(i))) return i;
  }
  FAIL("unknown name " << word.dump());
  return 0;
}

/// Lines of the file, added up by phase.
std::array<StepCounts, all_phases.size()> planned(const json& lines) {
  std::array<StepCounts, all_phases.size()> counts{};
  for (const json& line : lines) {
    const auto phase = index_of(line.at("phase"), static_cast<int>(all_phases.size()),
                                [](int i) { return name(static_cast<Phase>(i)); });
    const auto group = index_of(line.at("over"), num_comm_groups,
                                [](int i) { return name(static_cast<CommGroup>(i)); });
    const auto collective = index_of(line.at("collective"), num_collectives,
                                     [](int i) { return name(static_cast<Collective>(i)); });
    counts[phase].of[group][collective] +=
        {line.at("calls"), line.at("messages"), line.at("messages_received"), line.at("sent_bytes"),
         line.at("received_bytes")};
  }
  return counts;
}

/// The TP rank with the most bytes among those of a data rank: one may have more parts of blocks of
/// state than another.
const RankAccount& fullest(const std::vector<RankAccount>& accounts, std::size_t data_rank,
                           int tp) {
  const auto first = accounts.begin() + static_cast<std::ptrdiff_t>(data_rank) * tp;
  return *std::max_element(first, first + tp, [](const RankAccount& a, const RankAccount& b) {
    return a.memory.total_peak < b.memory.total_peak;
  });
}

/// A rank of the file against the ranks of the run with the same data rank.
void check_rank(const json& rank, const AccountedRun& run,
                const std::vector<RankAccount>& accounts) {
  const auto data_rank = rank.at("data_rank").get<std::size_t>();
  const MemoryUse& memory = fullest(accounts, data_rank, run.grid.tp).memory;
  for (int t = 0; t < run.grid.tp; ++t) {
    const RankAccount& account =
        accounts[data_rank * static_cast<std::size_t>(run.grid.tp) + static_cast<std::size_t>(t)];
    CHECK_MESSAGE(account.problem.empty(), run.id(), ": ", account.problem);
    if (run.setup.state_formats.plain()) CHECK(account.memory.total_peak == memory.total_peak);
    const auto traffic = planned(rank.at("traffic"));
    for (std::size_t phase = 0; phase < traffic.size(); ++phase) {
      CAPTURE(name(static_cast<Phase>(phase)));
      CHECK(account.traffic[phase].difference(traffic[phase]) == "");
    }
  }
  CHECK(rank.at("peak") == classes(memory.peak));
  CHECK(rank.at("after_step") == classes(memory.now));
  CHECK(rank.at("total_peak") == memory.total_peak);
  CHECK(rank.at("total_after_step") == memory.total_now);
}

}  // namespace

TEST_CASE(
    "plan: smallest and largest rank of every stage have the bytes that the production step "
    "allocates and "
    "sends") {
  const TemporaryFolder folder;
  const std::string model = quoted(folder.write("model.toml", description));
  struct Case {
    int instances, dp, cp, tp;
    std::int64_t micro_batches, bucket_numel;
    MicroBatchOrder order;
    Windows windows = Windows::off;
    StateFormats state = {};
  };
  constexpr StateFormats short_state = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::bf16};
  for (const Case& c :
       {Case{1, 1, 1, 1, 1, 2048, MicroBatchOrder::by_stage},
        Case{1, 3, 1, 1, 7, 2048, MicroBatchOrder::contiguous},
        Case{1, 8, 1, 1, 3, 1024, MicroBatchOrder::strided},
        Case{1, 2, 2, 2, 5, 4096, MicroBatchOrder::by_stage},
        Case{2, 4, 1, 2, 9, 3072, MicroBatchOrder::by_stage},
        Case{1, 3, 1, 1, 7, 2048, MicroBatchOrder::contiguous, Windows::params},
        Case{1, 8, 1, 1, 3, 1024, MicroBatchOrder::strided, Windows::on},
        Case{2, 4, 1, 2, 9, 3072, MicroBatchOrder::by_stage, Windows::params},
        Case{1, 3, 1, 1, 7, 2048, MicroBatchOrder::contiguous, Windows::off, short_state},
        Case{2, 4, 1, 2, 9, 3072, MicroBatchOrder::by_stage, Windows::on, short_state}}) {
    const std::string grid = ProcessGrid{c.dp, c.cp, c.tp}.id();
    CAPTURE(grid);
    CAPTURE(name(c.windows));
    const std::string file = folder.file("plan.json");
    std::ostringstream command;
    command << "plan " << model << " --grid " << grid << " --instances " << c.instances
            << " --micro-batches " << c.micro_batches << " --bucket " << c.bucket_numel
            << " --order " << name(c.order) << " --windows " << name(c.windows)
            << " --exp-avg-dtype " << name(c.state.exp_avg) << " --exp-avg-sq-dtype "
            << name(c.state.exp_avg_sq) << " --master-dtype " << name(c.state.master) << " --json "
            << quoted(file);
    REQUIRE(run_cli(command.str()).exit_code == 0);
    const json stages = json::parse(read_file(file)).at("stages");
    for (int stage = 0; stage <= 3; ++stage) {
      AccountedRun run;
      run.grid = {c.instances, c.dp * c.cp / c.instances, c.tp, c.cp};
      run.bucket_numel = c.bucket_numel;
      run.leaves = GradsArrive::by_name;
      run.tensors = described_tensors();
      run.setup.stage = stage;
      run.setup.order = c.order;
      run.setup.windows = c.windows;
      run.setup.state_formats = c.state;
      run.setup.micro_batches = c.micro_batches;
      run.setup.hyper.norm =
          NormForm::exact;  // the number of words of chunk1024, which TP ranks cannot have
      const std::vector<RankAccount> accounts = account(run);
      const json& planned_stage = stages.at(stage);
      check_rank(planned_stage.at("largest"), run, accounts);
      check_rank(planned_stage.at("smallest"), run, accounts);
      std::int64_t most = 0;
      std::int64_t least = fullest(accounts, 0, c.tp).memory.total_peak;
      for (std::size_t rank = 0; rank < accounts.size() / static_cast<std::size_t>(c.tp); ++rank) {
        const std::int64_t peak = fullest(accounts, rank, c.tp).memory.total_peak;
        most = std::max(most, peak);
        least = std::min(least, peak);
      }
      CHECK(planned_stage.at("largest").at("total_peak") == most);
      CHECK(planned_stage.at("smallest").at("total_peak") == least);
    }
  }
}
