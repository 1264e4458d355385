// Faults of how a step is dealt out over ranks: stage 3, orders, grids, instances, layouts, groups, bins,
// overlap.

#include "verification/fault_plan.hpp"
#include "verification/fault_recording.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* stage2 = "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* stage3 = "byte_gpt_tiny/adamw/host/stage3/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* overlap =
    "byte_gpt_tiny/adamw/host/stage3/threads:3/fp16/lockstep/bucket:4096/omp:1/overlap";
constexpr const char* persistent =
    "byte_gpt_tiny/adamw/host/stage3/threads:3/fp16/lockstep/bucket:4096/omp:1/persistent:64";
constexpr const char* contiguous =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1/order:contiguous";
constexpr const char* strided =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1/order:strided";
constexpr const char* alone =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1/order:strided";
constexpr const char* instances =
    "byte_gpt_tiny/adamw/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/instances:2";
constexpr const char* tp =
    "byte_gpt_tiny/adamw/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/grid:2x1x2";
constexpr const char* drawn =
    "byte_gpt_tiny/adamw-stochastic/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/grid:2x1x2";
constexpr const char* cp =
    "byte_gpt_tiny/adamw/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/grid:2x2x1";
constexpr const char* rows =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1/layout:fsdp2";
constexpr const char* groups =
    "byte_gpt_tiny/adamw-groups/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* bins =
    "recorded/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1/sum:binned";
constexpr const char* bins_merged =
    "recorded/adamw/host/stage1/threads:3/bf16/lockstep/bucket:4096/omp:1/sum:binned";

/// Layouts and TP ranks that cut inside chunks need a norm that does not mind.
void exact_norm(RunConfig& config) { config.optimizer.norm = NormForm::exact; }

/// Heads for two TP ranks. The planted infinity is in a tensor that is cut: the last TP rank alone has it.
void four_heads(RunConfig& config) {
  exact_norm(config);
  config.model.width = 20;
  config.model.heads = 4;
  config.overflow_tensor = "block1.mlp.down.weight";
}

/// One micro-batch: all ranks but one have none, and G is its leaf. In fp16, 2^-16 times a gradient below
/// 2^-9 is a zero with the sign of the gradient.
void one_small_micro_batch(RunConfig& config) {
  config.micro_batches = 1;
  config.scaler.log2_initial = -16;
  config.scaler.log2_min = -32;
}

/// Below the norm of the recorded gradients, so that clipping binds.
void small_limit(RunConfig& config) { config.optimizer.max_norm = 0.01; }

constexpr FaultCase with(void (*config)(RunConfig&), FaultCase row) {
  row.config = config;
  return row;
}

/// On rank 2, which owns the recorded parameter.
constexpr FaultCase in_bins(std::string_view fault, std::string_view id, std::int64_t first,
                            std::int64_t last) {
  return {fault, id, 1, 2, "grad_sum", "w", first, last, {}, false, small_limit, bins_recording};
}

/// What a layer is shown, on rank 0.
constexpr FaultCase shown(std::string_view fault, std::int64_t step, std::string_view says) {
  return {fault, stage3, step, 0, "leaf", "", -1, -1, says};
}

constexpr FaultCase refused(std::string_view fault, std::string_view id, std::int64_t step,
                            std::string_view says) {
  return {fault, id, step, 0, "", "", -1, -1, says, true};
}

// Places by reasoning, as in fault_plan.cpp, where the numbers of the small workload stand.
//
// Units: 0 the embeddings (chunks 0 to 4), 1 and 2 the blocks (16 tensors each: chunks 5 to 20 and 21 to 36),
// 3 the final norm and the head (37 to 42). The backward pass completes bucket 10 first, which lies in unit
// 3. Gains start at 1 and biases at 0 in both blocks, so that those first differ in query.weight. The forward
// pass of step 2 is the first that can be stale. Of two owners the first has chunks 0 and 1 of every bucket,
// and of the last one (40 to 42) chunk 40: to 41983.
//
// With width 20 the embedding and the head have 5 chunks each and tensor t between them is chunk t + 4.
// Bucket 10 (40 to 43) gives the first of two data ranks chunks 40 and 41, to 43007. The first tensor that TP
// cuts by columns is query.weight at chunk 8, which that rank owns; loading a state already draws.
//
// By rows, rank 0 of 3 has 86 of 256 and one too many if 256 / 3 is rounded down: row 85, from element 1275.
// The last tensor whose rows do not divide by 3 is block 1's mlp.down.weight, 37 x 15 at chunk 35: row 12, to
// 35840 + 194.
//
// Step 1 of adamw-groups is halfway through its warm-up, and step 3 is skipped. The last of 3 ranks owns the
// one chunk of the recorded parameter. Strided leaves meet there in order, and both sums that change bins
// lose the first; ranks with contiguous blocks see one of them whole and merge the other.
constexpr FaultCase plan[] = {
    shown("Z84-stale-unit", 2,
          "the forward visit of unit 0 parameters that are not the gathered ones, first at "
          "token_embedding.weight"),
    shown("units-swapped", 1,
          "the forward visit of unit 1 parameters that are not the gathered ones, first at "
          "block0.attention.query.weight[0, 0]"),
    {"persistent-not-refreshed", persistent, 1, 0, "param_full", "block0.attention_norm.gain", -2, -2},
    shown("unit-read-after-release", 1,
          "the backward visit of unit 3 parameters that are not the gathered ones, first at "
          "final_norm.gain[0]: got 0xffff ("),
    {"senders-share-a-stack", contiguous, 1, 0, "grad_sum", "token_embedding.weight", -2, -2},
    {"strided-local-index", strided, 1, 0, "grad_sum", "token_embedding.weight", -2, -2},
    with(one_small_micro_batch,
         {"idle-rank-sends-zeros", alone, 1, 0, "grad_sum", "token_embedding.weight", -2, -2}),
    {"instances-not-reduced", instances, 1, 0, "grad_sum", "token_embedding.weight", -2, 41983},
    {"instances-reduced-twice", instances, 1, 0, "grad_sum", "token_embedding.weight", 150, 41983},
    {"norm-added-over-instances", instances, 1, 0, "norm_limbs", "", -1, -1},
    with(four_heads, {"Z38-replica-counted-as-shard", tp, 1, 0, "norm_limbs", "", -1, -1}),
    with(four_heads,
         {"Z77-tp-parts-not-combined", tp, 1, 0, "grad_sum", "token_embedding.weight", -2, 43007}),
    with(four_heads, {"tp-parts-after-the-sum", tp, 1, 0, "grad_sum", "token_embedding.weight", -2, -2}),
    with(four_heads, {"Z53-found-inf-not-over-tp", tp, 3, 0, "found_inf", "", -1, -1}),
    with(four_heads,
         {"draws-by-local-index", drawn, 0, 0, "param_shard", "block0.attention.query.weight", -2, -2}),
    with(four_heads, {"cp-in-divisor", cp, 1, 0, "step_scalars", "", -1, -1}),
    with(four_heads, {"cp-parts-folded-last", cp, 1, 0, "grad_sum", "token_embedding.weight", -2, -2}),
    with(exact_norm,
         {"Z78-uneven-rows-dropped", rows, 1, 0, "exp_avg", "token_embedding.weight", 1275, 36034}),
    refused("Z92-shards-of-another-world", stage2, 0,
            "the shard map is for 2 ranks but the communicator has 3"),
    {"no-decay-group-decays", groups, 1, 0, "step_scalars", "", -1, -1},
    {"one-lr-for-all-groups", groups, 1, 0, "step_scalars", "", -1, -1},
    refused("Z98-group-order-per-rank", groups, 1, "the step scalars of rank 2 differ from those of rank 0"),
    {"schedule-advances-on-skip", groups, 4, 0, "step_scalars", "", -1, -1},
    {"Z107-first-lr-not-scheduled", groups, 1, 0, "step_scalars", "", -1, -1},
    in_bins("lower-bin-forgotten", bins, 3, 4),
    in_bins("bins-merged-unaligned", bins_merged, 4, 4),
    in_bins("bins-rounded-twice", bins, 5, 5),
    refused("bucket-reduced-early", stage3, 1,
            "reads the gradient of unit 3, which no unit was declared ready for"),
    {"Z83-buffer-reused-in-flight", overlap, 1, 0, "grad_sum", "token_embedding.weight", 0, 41983},
    refused("Z82-reduction-does-not-wait", overlap, 1, "both touch the gradient of unit 3 in no fixed order"),
};

}  // namespace

Span<const FaultCase> placed_fault_plan() { return plan; }

}  // namespace zeroproof::verification
