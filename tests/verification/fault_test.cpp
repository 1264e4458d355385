// The harness is shown wrong optimizers: every one must be caught, and blamed on the right place.

#include <doctest.h>

#include <set>

#include "cuda/faults.hpp"
#include "verification/run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

CaseResult run(const std::string& id, const std::string& fault) {
  VerifyOptions options;
  options.patterns = {id};
  options.fault = fault;
  options.overrides = [](RunConfig& config) { config.comm_timeout_s = 10; };
  const std::vector<CaseSpec> cases = selected_cases(options);
  REQUIRE(cases.size() == 1);
  RunReport report = run_cases(options, cases, [](double, const std::string&) {});
  REQUIRE(report.cases.size() == 1);
  return report.cases.front();
}

constexpr const char* stage0 = "byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2";
constexpr const char* stage1 = "byte_gpt_tiny/adamw/host/stage1/threads:8/fp16/lockstep/bucket:65536/omp:1";
constexpr const char* stage2 = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";

constexpr const char* fused =
    "byte_gpt_tiny/adamw/host-fused/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";

/// Where a fault must be found. The small workload skips its third step; step 0 is the state after loading.
struct Expected {
  const char* fault;
  const char* id;
  std::int64_t step;
  int rank;
  const char* buffer;
  const char* parameter;      ///< of the first element that differs; "" where the buffer is no tensor
  std::int64_t first_global;  ///< -1 where the buffer is no tensor, -2 where it is not predicted
  std::int64_t last_global;
};

// Element ranges by reasoning, not by looking: a shard of stage 2 with 3 ranks and buckets of 4 chunks has chunk 0
// of each bucket on rank 0, so its last element is the last one of the last such chunk that a tensor reaches (41983);
// stage 0 holds everything (to 43775, the last element of the head); rank 0 of 8 holds 5 of 43 chunks, in which the
// position embedding ends at 4290. Byte 10, the line feed, is the first byte of the text that has a gradient.
// The planted infinity is the last element of the head, owned by the last of 8 ranks: rank 0 does not see it.
const Expected expectations[] = {
    {"do-nothing", stage2, 1, 0, "exp_avg", "token_embedding.weight", 0, 41983},
    {"Z01-decay-after-update", stage2, 1, 0, "master", "token_embedding.weight", -2, -2},
    {"Z03-eps-under-bias-correction", stage2, 1, 0, "master", "token_embedding.weight", -2, -2},
    {"Z17-vector-body-not-stored", stage2, 0, 0, "param_shard", "token_embedding.weight", 0, -2},
    {"Z20-state-zeroed-each-step", stage0, 1, 0, "exp_avg", "token_embedding.weight", 0, 43775},
    {"Z33-replicated-counted-per-rank", stage0, 1, 0, "norm_limbs", "", -1, -1},
    {"Z49-double-unscale", stage2, 1, 0, "unscaled_grad", "token_embedding.weight", 150, 41983},
    {"Z53-found-inf-not-global", stage1, 3, 0, "found_inf", "", -1, -1},
    {"Z58-hysteresis-not-refilled", stage1, 5, 0, "loss_scaler", "", -1, -1},
    {"Z60-sum-instead-of-mean", stage0, 1, 0, "step_scalars", "", -1, -1},
    {"Z64-accumulator-overwritten", stage2, 1, 0, "grad_sum", "token_embedding.weight", 150, 41983},
    {"Z70-bf16-accumulator", stage1, 1, 0, "grad_sum", "token_embedding.weight", 150, 4290},
    {"Z78-shard-from-unpadded-count", stage1, 1, 0, "exp_avg", "position_embedding.weight", 4096, 4290},
    {"Z84-last-bucket-not-gathered", stage2, 0, 0, "param_full", "head.weight", -2, 43775},
    {"Z91-transport-corrupts-a-line", stage1, 0, 7, "param_full", "token_embedding.weight", 0, 63},
    {"Z106-counter-advances-on-skip", stage2, 3, 0, "applied_steps", "", -1, -1},
    {"Z116-no-master", stage2, 1, 0, "master", "", -1, -1},
    {"fused-clip-forgotten", fused, 1, 0, "exp_avg", "token_embedding.weight", 150, 41983},
    {"fused-cast-of-old-master", fused, 1, 0, "param_shard", "token_embedding.weight", -2, -2},
    {"skip-keeps-norm", stage2, 3, 0, "grad_norm", "", -1, -1},
    {"found-inf-not-cleared", stage2, 4, 0, "found_inf", "", -1, -1},
    {"skip-ignored", stage2, 3, 0, "found_inf", "", -1, -1},
    {"buffer-hidden", stage1, 0, 0, "param_shard", "", -1, -1},
    {"leaf-computed-twice", stage2, 1, 0, "leaf", "", -1, -1},
    {"leaf-edited", stage2, 1, 0, "leaf", "", -1, -1},
};

const cuda::Fault& catalogued(const std::string& id) {
  for (const cuda::Fault& fault : cuda::fault_catalogue()) {
    if (fault.id == id) return fault;
  }
  throw std::runtime_error("no fault " + id);
}

}  // namespace

TEST_CASE("every planted fault is caught at its step, phase, rank, buffer and element range") {
  REQUIRE(cuda::faults_built());
  std::set<std::string_view> classes;
  for (const Expected& expected : expectations) {
    CAPTURE(std::string(expected.fault));
    const CaseResult result = run(expected.id, expected.fault);
    CAPTURE(result.reason);
    CHECK(result.status == Status::fail);
    REQUIRE(result.divergence.has_value());
    const Divergence& d = *result.divergence;
    CHECK(d.phase == catalogued(expected.fault).phase);
    CHECK(d.step == expected.step);
    if (expected.rank >= 0) CHECK(d.rank == expected.rank);
    CHECK(d.buffer == expected.buffer);
    if (expected.first_global >= -1) CHECK(d.global_index == expected.first_global);
    if (expected.last_global >= -1) CHECK(d.last_global_index == expected.last_global);
    if (*expected.parameter != '\0') CHECK(d.parameter == expected.parameter);
    classes.insert(catalogued(expected.fault).fault_class);
    MESSAGE(std::string(expected.fault) << ": " << result.reason);
  }
  CHECK(classes.size() >= 6);
}

TEST_CASE("the table above covers the whole catalogue") {
  for (const cuda::Fault& fault : cuda::fault_catalogue()) {
    const bool covered = std::any_of(std::begin(expectations), std::end(expectations),
                                     [&](const Expected& expected) { return fault.id == expected.fault; });
    CHECK_MESSAGE(covered, fault.id);
  }
}

TEST_CASE("faults do not survive a free run either") {
  for (const Expected& expected : expectations) {
    CAPTURE(std::string(expected.fault));
    std::string id = expected.id;
    id.replace(id.find("lockstep"), 8, "free");
    CHECK(run(id, expected.fault).status == Status::fail);
  }
}

TEST_CASE("the same program without a fault passes: no false alarm") {
  for (const char* id : {stage0, stage1, stage2, fused}) CHECK(run(id, "").status == Status::pass);
}
