#include "verification/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* stage0 = "byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2";
constexpr const char* stage1 = "byte_gpt_tiny/adamw/host/stage1/threads:8/fp16/lockstep/bucket:65536/omp:1";
constexpr const char* stage2 = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* fused =
    "byte_gpt_tiny/adamw/host-fused/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";

// The small workload skips its third step. Element ranges by reasoning, not by looking: a shard of stage 2 with 3 ranks
// and buckets of 4 chunks has chunk 0 of each bucket on rank 0, so its last element is the last one of the last such chunk
// that a tensor reaches (41983); stage 0 holds everything (to 43775, the last element of the head); rank 0 of 8 holds 5 of
// 43 chunks, in which the position embedding ends at 4290. Byte 10, the line feed, is the first byte of the text that has a
// gradient. The planted infinity is the last element of the head, owned by the last of 8 ranks: rank 0 does not see it.
constexpr FaultCase plan[] = {
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

}  // namespace

Span<const FaultCase> fault_plan() { return plan; }

}  // namespace zeroproof::verification
