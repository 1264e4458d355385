#include "verification/fault_plan.hpp"

#include <iterator>
#include <vector>

namespace zeroproof::verification {
namespace {

constexpr const char* stage0 = "byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2";
constexpr const char* stage1 = "byte_gpt_tiny/adamw/host/stage1/threads:8/fp16/lockstep/bucket:65536/omp:1";
constexpr const char* stage2 = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* fused =
    "byte_gpt_tiny/adamw/host-fused/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* stage2_bf16 =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1";
constexpr const char* self_bf16 = "byte_gpt_tiny/adamw/host/stage2/self/bf16/lockstep/bucket:4096/omp:1";
constexpr const char* empty_rank =
    "byte_gpt_tiny/adamw/host/stage1/threads:6/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* adam = "byte_gpt_tiny/adam/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* amsgrad =
    "byte_gpt_tiny/adamw-amsgrad/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* sgd = "byte_gpt_tiny/sgd/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* nesterov =
    "byte_gpt_tiny/sgd-nesterov/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* inf_norm =
    "byte_gpt_tiny/sgd-plain/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* tokens =
    "byte_gpt_tiny/adamw-tokens/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* idle = "byte_gpt_tiny/adamw-idle/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";

// The small workload skips its third step. Element ranges by reasoning, not by looking: a shard of stage 2 with 3 ranks
// and buckets of 4 chunks has chunk 0 of each bucket on rank 0, so its last element is the last one of the last such chunk
// that a tensor reaches (41983); stage 0 holds everything (to 43775, the last element of the head); rank 0 of 8 holds 5 of
// 43 chunks, in which the position embedding ends at 4290. Byte 10, the line feed, is the first byte of the text that has a
// gradient. The planted infinity is the last element of the head, owned by the last of 8 ranks: rank 0 does not see it.
// Chunk c above 4 holds tensor c - 3; every third tensor (1, 4, 7, ...) rests in even steps. In stage 2 with 3 ranks, of those
// rank 0 has 1, 13 and 25 (chunks 4, 16, 28); bucket 9 has the resting tensor 34, and rank 0's chunk 36 of it ends at 36878. With
// 6 ranks and buckets of 4 chunks rank 0 owns nothing. Neighbours of one size are the gains and biases of the three norms.
constexpr FaultCase steps[] = {
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
    {"Z04-decoupled-for-l2", adam, 1, 0, "exp_avg", "token_embedding.weight", 0, 41983},
    {"Z05-amsgrad-max-not-kept", amsgrad, 1, 0, "max_exp_avg_sq", "token_embedding.weight", -2, -2},
    {"Z07-dampening-in-first-step", sgd, 1, 0, "momentum_buffer", "token_embedding.weight", 0, 41983},
    {"Z09-eps-after-rsqrt", tokens, 1, 0, "master", "token_embedding.weight", 0, -2},
    {"Z13-narrow-element-count", stage0, 1, 0, "exp_avg", "token_embedding.weight", 0, 43775},
    {"Z15-empty-tail-drops-launch", stage1, 1, 0, "exp_avg", "position_embedding.weight", 4096, 4290},
    {"Z21-fma-in-sgd", nesterov, 1, 0, "master", "token_embedding.weight", -2, -2},
    {"Z22-default-differs", stage2, 1, 0, "step_scalars", "", -1, -1},
    {"Z23-one-counter-for-subgroups", stage2, 1, 0, "master", "position_embedding.weight", 4096, 41983},
    {"Z24-power-by-running-product", stage2, 1, 0, "step_scalars", "", -1, -1},
    {"Z25-one-counter-for-all", idle, 1, 0, "step_scalars", "", -1, -1},
    {"Z27-counter-shared-by-tensors", idle, 1, 0, "tensor_steps", "", -1, -1},
    {"Z29-empty-rank-has-no-step", empty_rank, 1, 0, "applied_steps", "", -1, -1},
    {"Z39-norm-differs-across-ranks", stage1, 1, 7, "norm_limbs", "", -1, -1},
    {"Z40-inf-norm-takes-root", inf_norm, 1, 0, "grad_norm", "", -1, -1},
    {"Z42-norm-squared-in-fp32", stage2, 1, 0, "grad_norm", "", -1, -1},
    {"Z43-short-pieces-counted-twice", stage2, 1, 0, "norm_limbs", "", -1, -1},
    {"Z45-clip-divides-by-scale-again", stage2, 1, 0, "clip_coef", "", -1, -1},
    {"Z46-clip-per-microbatch", stage2_bf16, 1, 0, "grad_sum", "token_embedding.weight", -2, 41983},
    {"Z50-found-inf-dropped-without-scaler", stage2_bf16, 3, 0, "found_inf", "", -1, -1},
    {"Z55-scaler-partly-saved", stage1, 1, 0, "loss_scaler", "", -1, -1},
    {"Z59-overflow-unchecked-in-bf16", stage2_bf16, 3, 0, "found_inf", "", -1, -1},
    {"Z62-mean-of-means", tokens, 1, 0, "step_scalars", "", -1, -1},
    {"Z65-boundary-microbatch-leaks", stage2_bf16, 1, 0, "grad_sum", "token_embedding.weight", -2, 41983},
    {"Z66-doubles-each-microbatch", self_bf16, 1, 0, "grad_sum", "token_embedding.weight", 150, 43775},
    {"Z71-reduce-reads-other-buffer", stage2_bf16, 1, 0, "grad_sum", "token_embedding.weight", -2, 41983},
    {"Z73-idle-bucket-not-reduced", idle, 2, 0, "grad_sum", "position_embedding.weight", 4096, 36878},
    {"Z74-zero-instead-of-none", idle, 2, 0, "exp_avg", "position_embedding.weight", 4096, 28686},
    {"Z75-transpose-of-sum", stage2_bf16, 1, 0, "grad_sum", "token_embedding.weight", 150, 41983},
    {"Z81-no-gather-after-load", stage2, 0, 0, "param_full", "token_embedding.weight", 0, 43775},
    {"Z99-master-from-16-bit", stage0, 0, 0, "master", "token_embedding.weight", 0, 43775},
    {"Z103-state-index-shift", stage0, 0, 0, "exp_avg", "block0.attention_norm.gain", 5120, 37902},
    {"Z110-stale-grad-reapplied", idle, 2, 0, "grad_sum", "position_embedding.weight", 4096, 28686},
    {"Z117-moments-in-half", stage0, 1, 0, "exp_avg_sq", "token_embedding.weight", 0, 43775},
    {"Z127-gradient-read-transposed", stage0, 1, 0, "exp_avg", "token_embedding.weight", -2, -2},
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

Span<const FaultCase> fault_plan() {
  static const std::vector<FaultCase> plan = [] {
    std::vector<FaultCase> all(std::begin(steps), std::end(steps));
    for (const Span<const FaultCase> more : {placed_fault_plan(), lbfgs_fault_plan()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return plan;
}

}  // namespace zeroproof::verification
