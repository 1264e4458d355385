// Faults of the distribution of a step over ranks: stage 3, orders, grids, instances, layouts,
// groups, bins, overlap.

#include "verification/faults/fault_plan.hpp"
#include "verification/faults/fault_recording.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* stage2 =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* stage3 =
    "byte_gpt_tiny/adamw/host/stage3/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* windows =
    "byte_gpt_tiny/adamw/host/stage1/threads:3/fp16/lockstep/bucket:4096/omp:1/windows:on";
constexpr const char* offloaded =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1/offload:1/"
    "offload-place:file/"
    "offload-chunk:1000";
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
constexpr const char* lamb_tp =
    "byte_gpt_tiny/lamb/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/grid:2x1x2";
constexpr const char* drawn =
    "byte_gpt_tiny/adamw-stochastic/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/"
    "grid:2x1x2";
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

/// Layouts and TP ranks that split inside chunks need a norm that does not depend on chunks.
void exact_norm(RunConfig& config) { config.optimizer.norm = NormForm::exact; }

/// Heads for two TP ranks. The planted infinity is in a split tensor: only the last TP rank holds
/// it.
void four_heads(RunConfig& config) {
  exact_norm(config);
  config.model.width = 20;
  config.model.heads = 4;
  config.overflow_tensor = "block1.mlp.down.weight";
}

/// One micro-batch: all ranks but one have none, and G is its gradient. In fp16, 2^-16 times a
/// gradient below 2^-9 is a zero with the sign of the gradient.
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
  return {.fault = fault,
          .case_id = id,
          .step = 1,
          .rank = 2,
          .buffer = "grad_sum",
          .elements = Elements{.parameter = "w", .first = first, .last = last},
          .config = small_limit,
          .gradients = bins_recording};
}

/// Parameters passed to a layer, on rank 0.
constexpr FaultCase shown(std::string_view fault, std::int64_t step, std::string_view says) {
  return {.fault = fault, .case_id = stage3, .step = step, .buffer = "leaf", .says = says};
}

constexpr FaultCase refused(std::string_view fault, std::string_view id, std::int64_t step,
                            std::string_view says) {
  return {.fault = fault, .case_id = id, .step = step, .says = says, .refused = true};
}

// Places by derivation, as in fault_plan.cpp, which has the numbers of the small workload.
//
// Units: 0 the embeddings (chunks 0 to 4), 1 and 2 the blocks (16 tensors each: chunks 5 to 20 and
// 21 to 36), 3 the final norm and the head (37 to 42). The backward pass completes bucket 10 first,
// which is in unit 3. Gains start at 1 and biases at 0 in both blocks, so that the blocks first
// differ in query.weight. The forward pass of step 2 is the first that can be stale. Of two owners
// the first has chunks 0 and 1 of every bucket, and of the last one (40 to 42) chunk 40: to 41983.
//
// With width 20 the embedding and the head have 5 chunks each and tensor t between them is chunk t
// + 4. Bucket 10 (40 to 43) gives the first of two data ranks chunks 40 and 41, to 43007. The first
// tensor that TP splits by columns is query.weight at chunk 8, which that rank owns; loading a
// state already draws random words.
//
// By rows, rank 0 of 3 has 86 of 256 and one too many if 256 / 3 is rounded down: row 85, from element 1275.
// The last tensor whose rows do not divide by 3 is block 1's mlp.down.weight, 37 x 15 at chunk 35: row 12, to
// 35840 + 194.
//
// Step 1 of adamw-groups is halfway through its warm-up, and step 3 is skipped. The last of 3 ranks
// owns the one chunk of the recorded parameter. Strided gradients arrive there in order, and both
// sums that change bins lose the first; ranks with contiguous blocks hold one of the sums whole and
// merge the other.
constexpr FaultCase plan[] = {
    shown("stale-unit", 2,
          "the forward visit of unit 0 parameters that are not the gathered ones, first at "
          "token_embedding.weight"),
    shown("units-swapped", 1,
          "the forward visit of unit 1 parameters that are not the gathered ones, first at "
          "block0.attention.query.weight[0, 0]"),
    {.fault = "persistent-not-refreshed",
     .case_id = persistent,
     .step = 1,
     .buffer = "param_full",
     .elements = Elements{.parameter = "block0.attention_norm.gain"}},
    shown("unit-read-after-release", 1,
          "the backward visit of unit 3 parameters that are not the gathered ones, first at "
          "final_norm.gain[0]: got 0xffff ("),
    {.fault = "senders-share-a-stack",
     .case_id = contiguous,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "strided-local-index",
     .case_id = strided,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    with(one_small_micro_batch, {.fault = "idle-rank-sends-zeros",
                                 .case_id = alone,
                                 .step = 1,
                                 .buffer = "grad_sum",
                                 .elements = Elements{.parameter = "token_embedding.weight"}}),
    {.fault = "node-reused-early",
     .case_id = contiguous,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "stale-leaf-added",
     .case_id = contiguous,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "node-memory-shared",
     .case_id = contiguous,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    {.fault = "instances-not-reduced",
     .case_id = instances,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight", .last = last_of_rank0}},
    {.fault = "instances-reduced-twice",
     .case_id = instances,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "norm-added-over-instances", .case_id = instances, .step = 1, .buffer = "norm_limbs"},
    with(four_heads,
         {.fault = "replica-counted-as-shard", .case_id = tp, .step = 1, .buffer = "norm_limbs"}),
    // The embeddings and the first norm are replicated, and TP rank 0 has counted them.
    with(four_heads, {.fault = "lamb-ratio-of-tp-part",
                      .case_id = lamb_tp,
                      .step = 1,
                      .buffer = "trust_ratio",
                      .elements = Elements{.parameter = "block0.attention.query.weight"}}),
    with(four_heads, {.fault = "lamb-weights-per-tp-rank",
                      .case_id = lamb_tp,
                      .step = 1,
                      .buffer = "trust_ratio",
                      .elements = Elements{.parameter = "token_embedding.weight"}}),
    with(four_heads, {.fault = "tp-parts-not-combined",
                      .case_id = tp,
                      .step = 1,
                      .buffer = "grad_sum",
                      .elements = Elements{.parameter = "token_embedding.weight", .last = 43007}}),
    with(four_heads, {.fault = "tp-parts-after-the-sum",
                      .case_id = tp,
                      .step = 1,
                      .buffer = "grad_sum",
                      .elements = Elements{.parameter = "token_embedding.weight"}}),
    with(four_heads,
         {.fault = "found-inf-not-over-tp", .case_id = tp, .step = 3, .buffer = "found_inf"}),
    with(four_heads, {.fault = "draws-by-local-index",
                      .case_id = drawn,
                      .buffer = "param_shard",
                      .elements = Elements{.parameter = "block0.attention.query.weight"}}),
    with(four_heads,
         {.fault = "cp-in-divisor", .case_id = cp, .step = 1, .buffer = "step_scalars"}),
    with(four_heads, {.fault = "cp-parts-folded-last",
                      .case_id = cp,
                      .step = 1,
                      .buffer = "grad_sum",
                      .elements = Elements{.parameter = "token_embedding.weight"}}),
    with(exact_norm,
         {.fault = "uneven-rows-dropped",
          .case_id = rows,
          .step = 1,
          .buffer = "exp_avg",
          .elements =
              Elements{.parameter = "token_embedding.weight", .first = 1275, .last = 36034}}),
    refused("shards-of-another-world", stage2, 0, "the shard map is for 2 ranks and there are 3"),
    {.fault = "no-decay-group-decays", .case_id = groups, .step = 1, .buffer = "step_scalars"},
    {.fault = "one-lr-for-all-groups", .case_id = groups, .step = 1, .buffer = "step_scalars"},
    refused("group-order-per-rank", groups, 0,
            "the values of groups.rules of rank 2 differ from those of rank 0"),
    {.fault = "schedule-advances-on-skip", .case_id = groups, .step = 4, .buffer = "step_scalars"},
    {.fault = "first-lr-not-scheduled", .case_id = groups, .step = 1, .buffer = "step_scalars"},
    in_bins("lower-bin-forgotten", bins, 3, 4),
    in_bins("bins-merged-unaligned", bins_merged, 4, 4),
    in_bins("bins-rounded-twice", bins, 5, 5),
    refused("bucket-reduced-early", stage3, 1,
            "reads the gradient of unit 3, which no unit was declared ready for"),
    {.fault = "buffer-reused-in-flight",
     .case_id = overlap,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    // Rank 0 owns the first of four chunks of every bucket. No memory is written before the first
    // gradient or cast.
    {.fault = "leaf-read-before-its-fence",
     .case_id = windows,
     .step = 1,
     .buffer = "grad_sum",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0}},
    {.fault = "shard-read-before-its-fence",
     .case_id = windows,
     .buffer = "param_full",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 1024}},
    // Moments stay from the first element of rank 0 to its last one. Its last chunk has less than
    // 1,000 elements, all of the head, of which it owns 1,024.
    {.fault = "offload-moments-stay",
     .case_id = offloaded,
     .step = 1,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "offload-remainder-stays",
     .case_id = offloaded,
     .step = 1,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "head.weight", .last = last_of_rank0}},
    refused("reduction-does-not-wait", overlap, 1,
            "both touch the gradient of unit 3 in no fixed order"),
};

}  // namespace

Span<const FaultCase> placed_fault_plan() { return plan; }

}  // namespace zeroproof::verification
