#include "verification/faults/fault_plan.hpp"

#include <iterator>
#include <vector>

namespace zeroproof::verification {
namespace {

constexpr const char* stage0 =
    "byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2";
constexpr const char* stage1 =
    "byte_gpt_tiny/adamw/host/stage1/threads:8/fp16/lockstep/bucket:65536/omp:1";
constexpr const char* stage2 =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* fused =
    "byte_gpt_tiny/adamw/host-fused/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* stage2_bf16 =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1";
constexpr const char* self_bf16 =
    "byte_gpt_tiny/adamw/host/stage2/self/bf16/lockstep/bucket:4096/omp:1";
constexpr const char* empty_rank =
    "byte_gpt_tiny/adamw/host/stage1/threads:6/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* ends =
    "byte_gpt_tiny/adamw+on_nonfinite:error/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* adam =
    "byte_gpt_tiny/adam/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* amsgrad =
    "byte_gpt_tiny/adamw-amsgrad/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* sgd =
    "byte_gpt_tiny/sgd/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* nesterov =
    "byte_gpt_tiny/sgd-nesterov/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* lion =
    "byte_gpt_tiny/lion/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* lamb =
    "byte_gpt_tiny/lamb/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* lamb_without_decay =
    "byte_gpt_tiny/lamb-idle-max/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* inf_norm =
    "byte_gpt_tiny/sgd-plain/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* clip_groups =
    "byte_gpt_tiny/adamw+clip_groups:four/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* tokens =
    "byte_gpt_tiny/adamw-tokens/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* idle =
    "byte_gpt_tiny/adamw-idle/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* offload_idle =
    "byte_gpt_tiny/adamw-idle/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1/offload:1";
constexpr const char* offload_file =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1/offload:1/"
    "offload-place:file/"
    "offload-chunk:1000";

// The small workload skips its third step. Element ranges are derived, never copied from a run;
// fault_plan.hpp derives the last elements. Byte 10, the line feed, is the first byte of the text
// that has a gradient; its row of the embedding starts at element 150. The planted infinity is the
// last element of the head, owned by the last of 8 ranks: rank 0 does not read it.
// Chunk c above 4 holds tensor c - 3; every third tensor (1, 4, 7, ...) is unused in even steps. In
// stage 2 with 3 ranks, of those rank 0 has 1, 13 and 25 (chunks 4, 16, 28); bucket 9 has the
// unused tensor 34, and rank 0's chunk 36 of it ends at 36878. With 6 ranks and buckets of 4 chunks
// rank 0 owns nothing. Neighbours of one size are the gains and biases of the three norms.
// Lion's average starts at zero and stays zero without a gradient, whatever its decay: wrong decays
// show at element 150.
// A wrong trust ratio shows at the first tensor, of which every rank has a part: N_w is about
// 0.2 * 62 there, above 10. The first tensor of zeros is the bias of block 0's first norm.
// Clip groups: of the tensors at the chunks 0, 4, 8, ... of rank 0, the query bias (chunk 8) is the
// first that is not in the default group, and the bias of block 1's mlp.down (chunk 36, 15
// elements) the last.
// Vectors have 16 elements: the first tensor with a remainder is the position embedding, of 195,
// and the last one the bias of the last norm, 15 elements at chunk 38.
constexpr FaultCase steps[] = {
    {.fault = "do-nothing",
     .case_id = stage2,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "decay-after-update",
     .case_id = stage2,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "eps-under-bias-correction",
     .case_id = stage2,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "vector-body-not-stored",
     .case_id = stage2,
     .buffer = "param_shard",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0}},
    {.fault = "state-zeroed-each-step",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "replicated-counted-per-rank", .case_id = stage0, .step = 1, .buffer = "norm_limbs"},
    {.fault = "double-unscale",
     .case_id = stage2,
     .step = 1,
     .buffer = "unscaled_grad",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "found-inf-not-global", .case_id = stage1, .step = 3, .buffer = "found_inf"},
    {.fault = "hysteresis-not-refilled", .case_id = stage1, .step = 5, .buffer = "loss_scaler"},
    {.fault = "sum-instead-of-mean", .case_id = stage0, .step = 1, .buffer = "step_scalars"},
    {.fault = "accumulator-overwritten",
     .case_id = stage2,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "bf16-accumulator",
     .case_id = stage1,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0_of_8}},
    {.fault = "shard-from-unpadded-count",
     .case_id = stage1,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{
             .parameter = "position_embedding.weight", .first = 4096, .last = last_of_rank0_of_8}},
    {.fault = "last-bucket-not-gathered",
     .case_id = stage2,
     .buffer = "param_full",
     .elements = Elements{.parameter = "head.weight", .last = last_of_model}},
    {.fault = "transport-corrupts-a-line",
     .case_id = stage1,
     .rank = 7,
     .buffer = "param_full",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0, .last = 63},
     .says = "received in all_gather #2 of shards, from rank 0 to rank 7: byte 0 of 10240 "},
    {.fault = "counter-advances-on-skip", .case_id = stage2, .step = 3, .buffer = "applied_steps"},
    {.fault = "no-master",
     .case_id = stage2,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "decoupled-for-l2",
     .case_id = adam,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "amsgrad-max-not-kept",
     .case_id = amsgrad,
     .step = 1,
     .buffer = "max_exp_avg_sq",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "dampening-in-first-step",
     .case_id = sgd,
     .step = 1,
     .buffer = "momentum_buffer",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "eps-after-rsqrt",
     .case_id = tokens,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0}},
    {.fault = "narrow-element-count",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "empty-tail-drops-launch",
     .case_id = stage1,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{
             .parameter = "position_embedding.weight", .first = 4096, .last = last_of_rank0_of_8}},
    {.fault = "fma-in-sgd",
     .case_id = nesterov,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lion-betas-swapped",
     .case_id = lion,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "lion-one-average",
     .case_id = lion,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "lion-decay-coupled",
     .case_id = lion,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "lamb-decay-coupled",
     .case_id = lamb,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "lamb-ratio-not-applied",
     .case_id = lamb,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-weight-norm-after-update",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-norm-without-decay",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-norm-uncorrected",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-norm-of-old-moments",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-ratio-without-rate",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-zero-norm-stops",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "block0.attention_norm.bias"}},
    {.fault = "lamb-weight-norm-clamped",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-ratio-needs-decay",
     .case_id = lamb_without_decay,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-ratio-of-own-shard",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "lamb-ratio-of-next-tensor",
     .case_id = lamb,
     .step = 1,
     .buffer = "trust_ratio",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "default-differs", .case_id = stage2, .step = 1, .buffer = "step_scalars"},
    {.fault = "one-counter-for-subgroups",
     .case_id = stage2,
     .step = 1,
     .buffer = "master",
     .elements =
         Elements{.parameter = "position_embedding.weight", .first = 4096, .last = last_of_rank0}},
    {.fault = "power-by-running-product", .case_id = stage2, .step = 1, .buffer = "step_scalars"},
    {.fault = "one-counter-for-all", .case_id = idle, .step = 1, .buffer = "step_scalars"},
    {.fault = "counter-shared-by-tensors", .case_id = idle, .step = 1, .buffer = "tensor_steps"},
    {.fault = "empty-rank-has-no-step",
     .case_id = empty_rank,
     .step = 1,
     .buffer = "applied_steps"},
    {.fault = "norm-differs-across-ranks",
     .case_id = stage1,
     .step = 1,
     .rank = 7,
     .buffer = "norm_limbs"},
    {.fault = "inf-norm-takes-root", .case_id = inf_norm, .step = 1, .buffer = "grad_norm"},
    {.fault = "norm-squared-in-fp32", .case_id = stage2, .step = 1, .buffer = "grad_norm"},
    {.fault = "short-pieces-counted-twice", .case_id = stage2, .step = 1, .buffer = "norm_limbs"},
    {.fault = "default-norm-counts-groups",
     .case_id = clip_groups,
     .step = 1,
     .buffer = "norm_limbs"},
    {.fault = "norm-of-another-group", .case_id = clip_groups, .step = 1, .buffer = "norm_limbs"},
    {.fault = "one-norm-reduced", .case_id = clip_groups, .step = 1, .buffer = "norm_limbs"},
    {.fault = "limit-of-the-run-for-groups",
     .case_id = clip_groups,
     .step = 1,
     .buffer = "clip_coef"},
    {.fault = "one-coefficient-for-groups",
     .case_id = clip_groups,
     .step = 1,
     .buffer = "grad",
     .elements =
         Elements{.parameter = "block0.attention.query.bias", .first = 8192, .last = 36878}},
    {.fault = "clip-divides-by-scale-again", .case_id = stage2, .step = 1, .buffer = "clip_coef"},
    {.fault = "clip-per-microbatch",
     .case_id = stage2_bf16,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight", .last = last_of_rank0}},
    {.fault = "found-inf-dropped-without-scaler",
     .case_id = stage2_bf16,
     .step = 3,
     .buffer = "found_inf"},
    {.fault = "scaler-partly-saved", .case_id = stage1, .step = 1, .buffer = "loss_scaler"},
    {.fault = "overflow-unchecked-in-bf16",
     .case_id = stage2_bf16,
     .step = 3,
     .buffer = "found_inf"},
    {.fault = "mean-of-means", .case_id = tokens, .step = 1, .buffer = "step_scalars"},
    {.fault = "boundary-microbatch-leaks",
     .case_id = stage2_bf16,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight", .last = last_of_rank0}},
    {.fault = "doubles-each-microbatch",
     .case_id = self_bf16,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_model}},
    {.fault = "reduce-reads-other-buffer",
     .case_id = stage2_bf16,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight", .last = last_of_rank0}},
    {.fault = "idle-bucket-not-reduced",
     .case_id = idle,
     .step = 2,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4096, .last = 36878}},
    {.fault = "zero-instead-of-none",
     .case_id = idle,
     .step = 2,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4096, .last = 28686}},
    {.fault = "transpose-of-sum",
     .case_id = stage2_bf16,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "no-gather-after-load",
     .case_id = stage2,
     .buffer = "param_full",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "master-from-16-bit",
     .case_id = stage0,
     .buffer = "master",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "state-index-shift",
     .case_id = stage0,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "block0.attention_norm.gain", .first = 5120, .last = 37902}},
    {.fault = "stale-grad-reapplied",
     .case_id = idle,
     .step = 2,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4096, .last = 28686}},
    {.fault = "offload-grad-of-last-step",
     .case_id = offload_idle,
     .step = 2,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4096, .last = 28686}},
    {.fault = "offload-chunk-stale",
     .case_id = offload_file,
     .step = 2,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "offload-chunk-written-twice",
     .case_id = offload_file,
     .says = "would overwrite version 1 of chunk 0",
     .refused = true},
    {.fault = "moments-in-half",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg_sq",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "gradient-read-transposed",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "fused-clip-forgotten",
     .case_id = fused,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "fused-cast-of-old-master",
     .case_id = fused,
     .step = 1,
     .buffer = "param_shard",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "skip-keeps-norm", .case_id = stage2, .step = 3, .buffer = "grad_norm"},
    {.fault = "found-inf-not-cleared", .case_id = stage2, .step = 4, .buffer = "found_inf"},
    {.fault = "updates-before-error", .case_id = ends, .step = 3, .buffer = "applied_steps"},
    {.fault = "skip-ignored", .case_id = stage2, .step = 3, .buffer = "found_inf"},
    {.fault = "buffer-hidden", .case_id = stage1, .buffer = "param_shard"},
    {.fault = "leaf-computed-twice", .case_id = stage2, .step = 1, .buffer = "leaf"},
    {.fault = "leaf-edited", .case_id = stage2, .step = 1, .buffer = "leaf"},
    {.fault = "root-missing-in-tail",
     .case_id = stage0,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4288, .last = 38926}},
    {.fault = "truncated-by-one-isa",
     .case_id = stage2_bf16,
     .buffer = "param_shard",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "vector-writes-into-padding",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg",
     .says = "has a number in its padding"},
    {.fault = "state-written-past-its-end",
     .case_id = stage0,
     .step = 1,
     .buffer = "exp_avg",
     .says = "written outside its bounds"},
    {.fault = "params-written-past-their-end",
     .case_id = stage2,
     .step = 1,
     .buffer = "param_full",
     .says = "written outside its bounds"},
};

}  // namespace

Span<const FaultCase> fault_plan() {
  static const std::vector<FaultCase> plan = [] {
    std::vector<FaultCase> all(std::begin(steps), std::end(steps));
    for (const Span<const FaultCase> more :
         {placed_fault_plan(), resume_fault_plan(), device_fault_plan(), format_fault_plan(),
          muon_fault_plan(), operation_fault_plan(), lbfgs_fault_plan()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return plan;
}

}  // namespace zeroproof::verification
