// Reference and production wrong in the same way: only the undistributed optimizer detects it, in
// every phase and every buffer.

#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/judge/judge_support.hpp"
#include "verification/cases/obstacle.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Flips the lowest bit of the first value of a buffer. (Tensors start at the beginning of a shard.)
void flip(DistributedOptimizer& optimizer, Phase phase, BufferId id) {
  const std::optional<ExposedBuffer> buffer = exposed(optimizer, phase, id);
  REQUIRE(buffer);
  auto* byte = static_cast<std::uint8_t*>(buffer->view.data);
  *byte = static_cast<std::uint8_t>(*byte ^ 1U);
}

struct Place {
  Phase phase;
  BufferId id;
};

const std::vector<Place> always = {
    {Phase::prepare, BufferId::step_scalars},  {Phase::reduce, BufferId::grad_sum},
    {Phase::unscale, BufferId::unscaled_grad}, {Phase::unscale, BufferId::found_inf},
    {Phase::unscale, BufferId::loss_scaler},   {Phase::norm, BufferId::grad_norm},
    {Phase::clip, BufferId::clip_coef},        {Phase::clip, BufferId::grad},
    {Phase::update, BufferId::master},         {Phase::update, BufferId::applied_steps},
    {Phase::cast, BufferId::param_shard},      {Phase::gather, BufferId::param_full},
};

/// Both sides have the flip, so they agree.
void check_seen(TinyTraining& run, const CaseSpec& spec, const Place& place) {
  CAPTURE(run.experiment.recipe());
  CAPTURE(name(place.phase));
  CAPTURE(name(place.id));
  const Tamper tamper = [&](int rank, std::optional<Phase> now, DistributedOptimizer& o) {
    if (rank == spec.world.size - 1 && now == place.phase) flip(o, place.phase, place.id);
  };
  const Judged judged = judge_case(run, spec, 1, tampered(host_optimizer(), tamper),
                                   tampered(reference_optimizer(), tamper));
  REQUIRE(judged.first);
  CHECK(says(judged, "undistributed"));
  CHECK(judged.first->phase == place.phase);
  CHECK(judged.first->buffer == name(place.id));
  CHECK(judged.first->rank == spec.world.size - 1);
}

/// Every buffer that the reference exposes has been compared with the undistributed optimizer.
void check_all_compared(const Judged& judged) {
  const auto compared = [&](const PhaseTally& one, const char* against) {
    return std::any_of(judged.tallies.begin(), judged.tallies.end(), [&](const PhaseTally& other) {
      return other.phase == one.phase && other.buffer == one.buffer && other.against == against &&
             other.compared > 0;
    });
  };
  for (const PhaseTally& tally : judged.tallies) {
    CAPTURE(name(tally.phase));
    CAPTURE(name(tally.buffer));
    CHECK(compared(tally, "undistributed"));
    CHECK(tally.differing == 0);
  }
}

}  // namespace

TEST_CASE("judge: a wrong reference is reported in every phase and buffer") {
  TinyTraining adamw(DType::bf16, "adamw-amsgrad");
  for (const Place& place : always) check_seen(adamw, adamw.spec(1, 1), place);
  for (const BufferId id : {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::max_exp_avg_sq}) {
    check_seen(adamw, adamw.spec(1, 1), {Phase::update, id});
  }
  check_seen(adamw, adamw.spec(1, 1), {Phase::norm, BufferId::norm_limbs});
  TinyTraining sgd(DType::fp32, "sgd-nesterov");
  check_seen(sgd, sgd.spec(1, 0), {Phase::update, BufferId::momentum_buffer});
  TinyTraining inf(DType::bf16, "sgd-plain");
  check_seen(inf, inf.spec(1, 2), {Phase::norm, BufferId::grad_amax});
  TinyTraining idle(DType::bf16, "adamw-idle");
  check_seen(idle, idle.spec(1, 1), {Phase::update, BufferId::tensor_steps});
}

TEST_CASE("judge: a wrong reference on the last of three ranks") {
  TinyTraining run(DType::bf16);
  for (const Place& place : {always[1], always[8], always[11]})
    check_seen(run, run.spec(3, 2), place);
}

TEST_CASE("judge: every buffer of every recipe is compared with the undistributed optimizer") {
  for (const verification::Recipe& recipe : verification::recipes()) {
    const bool scaled = !verification::recipe_allows(std::string(recipe.name), DType::bf16);
    TinyTraining run(scaled ? recipe.dtypes.front() : DType::bf16, std::string(recipe.name));
    CAPTURE(recipe.name);
    const bool made = !scaled || verification::makes_scales(verification::Implementation::host);
    const Judged judged =
        judge_case(run, run.spec(1, 2), 4, made ? host_optimizer() : reference_optimizer(),
                   reference_optimizer());
    CHECK_FALSE(judged.first);
    CHECK(judged.tallies.size() > 20);
    check_all_compared(judged);
  }
}

TEST_CASE("judge: a wrong reference differs from a correct candidate") {
  TinyTraining run(DType::bf16);
  const Judged judged = judge_case(
      run, run.spec(1, 1), 1, host_optimizer(),
      tampered(reference_optimizer(), [](int, std::optional<Phase> now, DistributedOptimizer& o) {
        if (now == Phase::update) flip(o, Phase::update, BufferId::exp_avg);
      }));
  REQUIRE(judged.first);
  CHECK(judged.first->buffer == "exp_avg");
  CHECK(says(judged, "differs from the reference"));
}

TEST_CASE("judge: in lock-step a difference stays in its phase") {
  TinyTraining run(DType::bf16);
  for (const Place& place : always) {
    CAPTURE(name(place.phase));
    CAPTURE(name(place.id));
    bool done = false;
    const Tamper once = [&](int, std::optional<Phase> now, DistributedOptimizer& o) {
      if (done || now != place.phase) return;
      flip(o, place.phase, place.id);
      done = true;
    };
    const Judged judged =
        judge_case(run, run.spec(1, 1), 2, tampered(host_optimizer(), once), reference_optimizer());
    REQUIRE(judged.first);
    CHECK(judged.first->phase == place.phase);
    CHECK(judged.first->buffer == name(place.id));
    for (const PhaseTally& tally : judged.tallies) {
      if (tally.phase == place.phase && tally.buffer == place.id) continue;
      CAPTURE(name(tally.phase));
      CAPTURE(name(tally.buffer));
      CHECK(tally.differing == 0);
    }
  }
}

#if defined(ZP_HAVE_MPI)
TEST_CASE("judge: an MPI job that trained from another seed fails, although its sides agree") {
  const TemporaryFolder folder;
  // mpirun starts the first program it is given, here a shell that gets the words meant for mpirun ("-n 2 zeroproof
  // verify ...") as its own. These words are split at blanks and at nothing else, hence ${IFS}.
  const char* const other_seed = R"(-n 2 sh -c shift;eval${IFS}exec${IFS}'"$@"'${IFS}--seed=2)";
  const std::string id = "byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1";
  const std::string report = folder.file("report.json");
  const auto run = [&](const char* words) {
    ::setenv("ZP_MPIRUN_ARGS", words, 1);
    CliResult result = run_cli("verify '" + id + "' --report text," + quoted("json:" + report));
    ::unsetenv("ZP_MPIRUN_ARGS");
    return result;
  };
  const CliResult wrong = run(other_seed);
  CAPTURE(wrong.out);
  CAPTURE(wrong.err);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("not that of the undistributed optimizer") != std::string::npos);
  const auto json = nlohmann::json::parse(read_file(report));
  const auto& result = json.at("cases").at(0);
  CHECK(result.at("status") == "fail");
  const auto& run_of_job = result.at("training");
  CHECK(run_of_job.at("reference_trajectory_hash") == run_of_job.at("trajectory_hash"));
  const CliResult right = run("");
  CHECK(right.exit_code == 0);
}
#endif
