// Faults of parameters, state and masters in fewer bits.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* current =
    "byte_gpt_tiny/fp8-current/host/stage2/threads:3/e4m3/lockstep/bucket:4096/omp:1";
constexpr const char* current_e5m2 =
    "byte_gpt_tiny/fp8-current/host/stage2/threads:3/e5m2/lockstep/bucket:4096/omp:1";
constexpr const char* delayed =
    "byte_gpt_tiny/fp8-delayed/host/stage2/threads:3/e5m2/lockstep/bucket:4096/omp:1";
constexpr const char* most_recent =
    "byte_gpt_tiny/fp8-delayed+amax_choice:most_recent/host/stage2/threads:3/e5m2/lockstep/"
    "bucket:4096/omp:1";
constexpr const char* mxfp8 =
    "byte_gpt_tiny/fp8-mxfp8/host/stage2/threads:3/e4m3/lockstep/bucket:4096/omp:1";
constexpr const char* tp =
    "byte_gpt_tiny/fp8-delayed+model:even/host/stage2/threads:4/e5m2/lockstep/bucket:4096/omp:1/"
    "grid:2x1x2";
constexpr const char* stored =
    "byte_gpt_tiny/adamw+exp_avg_dtype:e4m3/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* stored_fresh =
    "byte_gpt_tiny/adamw-tokens+exp_avg_dtype:e4m3/host/stage2/threads:3/fp16/lockstep/bucket:4096/"
    "omp:1";
constexpr const char* stored_idle =
    "byte_gpt_tiny/adamw-idle+exp_avg_dtype:e4m3+exp_avg_sq_dtype:fp16/host/stage0/threads:3/fp16/"
    "lockstep/"
    "bucket:4096/omp:1";
constexpr const char* stored_rows =
    "byte_gpt_tiny/adamw+exp_avg_dtype:e4m3+norm:exact/host/stage2/threads:3/bf16/lockstep/"
    "bucket:4096/omp:1/"
    "layout:fsdp2";
constexpr const char* bf16_master =
    "byte_gpt_tiny/adamw-stochastic+master_dtype:bf16/host/stage2/threads:3/bf16/lockstep/"
    "bucket:4096/omp:1";

/// On rank 0, in a parameter.
constexpr FaultCase in(std::string_view fault, const char* id, std::int64_t step,
                       std::string_view buffer, std::optional<std::int64_t> first = {},
                       std::optional<std::int64_t> last = {}) {
  return {
      .fault = fault,
      .case_id = id,
      .step = step,
      .buffer = buffer,
      .elements = Elements{.parameter = "token_embedding.weight", .first = first, .last = last}};
}
/// On rank 0, in a buffer of blocks.
constexpr FaultCase of_blocks(std::string_view fault, const char* id, std::int64_t step,
                              std::string_view buffer) {
  return {.fault = fault, .case_id = id, .step = step, .buffer = buffer};
}

// Places by derivation, as in fault_plan.cpp, which has the numbers of byte_gpt_tiny. Loading a
// state computes scales and codes, so that a wrong implementation shows in step 0; a fault in the
// step alone shows in step 1. Amaxes are compared before histories, these before scales, and codes
// last; the codes of state before its scales.
//
// Scales for 448 instead of 57344 differ in every block, as do the codes made with them. Under
// delayed the first codes have the scale 1, whatever the amaxes are, and position_embedding, the
// first tensor without a gradient, has none in step 2: there its history must not change, and
// neither do its codes. A scale of this step's amax differs from the one of the amax before it. The
// inverse scales of codes change no code.
//
// Byte 0 has no gradient in a fresh state, and its moment stays zero. In a block without a gradient
// the moment is multiplied by 0.9: with a new scale its codes stay, with the old one all change. A
// block that is read and stored again keeps its codes, because their values are exact; its scale is
// rounded three more times. By rows, rank 0 of 3 has 86 of 256: 1290 elements, 10 of them of a
// block that continues on rank 1.
constexpr FaultCase plan[] = {
    of_blocks("scale-of-other-format", current_e5m2, 0, "param_scale"),
    in("code-one-branch-short", current, 0, "param_shard"),
    in("cast-twice", current, 0, "param_shard"),
    in("block-scale-of-neighbour", mxfp8, 0, "param_shard"),
    in("codes-by-last-scale", current, 1, "param_shard"),
    of_blocks("scale-inv-not-renewed", current, 1, "param_scale_inv"),
    of_blocks("history-rolls-when-idle", delayed, 2, "amax_history"),
    of_blocks("amax-makes-its-own-scale", most_recent, 1, "param_scale"),
    of_blocks("amax-not-over-tp", tp, 0, "amax"),
    in("columns-not-rebuilt", current, 1, "param_columns"),
    in("state-scale-of-neighbour", stored, 1, "exp_avg"),
    in("state-zero-drifts", stored_fresh, 1, "exp_avg", 0, last_of_rank0),
    of_blocks("resting-state-stored-again", stored_idle, 2, "exp_avg_scale"),
    in("state-scale-of-last-step", stored, 1, "exp_avg", 0),
    in("state-amax-not-joined", stored_rows, 0, "exp_avg"),
    in("master-drawn-as-last-step", bf16_master, 1, "master"),
};

}  // namespace

Span<const FaultCase> format_fault_plan() { return plan; }

}  // namespace zeroproof::verification
