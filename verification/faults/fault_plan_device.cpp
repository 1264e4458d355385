// Faults of streams, graphs and kernels. Cases in mode whole: buffers are not compared between two
// phases of a step.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* graph =
    "byte_gpt_tiny/adamw/device-graph/stage2/threads:2/fp16/whole/bucket:4096/omp:1";
constexpr const char* alone =
    "byte_gpt_tiny/adamw/device-graph/stage2/self/fp16/whole/bucket:4096/omp:1";
constexpr const char* fused =
    "byte_gpt_tiny/adamw/device-fused/stage2/threads:2/fp16/whole/bucket:4096/omp:1";
constexpr const char* stage0 =
    "byte_gpt_tiny/adamw/device-graph/stage0/threads:2/fp16/whole/bucket:4096/omp:1";
constexpr const char* groups =
    "byte_gpt_tiny/adamw-groups/device-graph/stage2/threads:2/fp16/whole/bucket:4096/omp:1";
constexpr const char* clip_groups =
    "byte_gpt_tiny/adamw+clip_groups:four/device-graph/stage2/threads:2/fp16/whole/bucket:4096/"
    "omp:1";
// From a fresh state, so that the table of the first half begins at step 1.
constexpr const char* resumed_groups =
    "resume/adamw-groups/1:0:device-graph-to-1:0:device-graph/bf16/contract-to-contract/after:3";
// A table has 1,024 rows, the first for step 1 of this run. Step 3 is skipped, so that step 1026 is
// the first without a row; the save comes later.
constexpr const char* long_run =
    "resume/adamw+micro_batches:1+decay:table/1:0:device-graph-to-1:0:device-graph/bf16/"
    "contract-to-contract/after:1027-of-1028";
constexpr const char* idle =
    "byte_gpt_tiny/adamw-idle/device-graph/stage2/threads:2/fp16/whole/bucket:4096/omp:1";
constexpr const char* overlap2 =
    "byte_gpt_tiny/adamw/device-graph/stage2/self/fp16/whole/bucket:4096/omp:1/overlap";
constexpr const char* overlap3 =
    "byte_gpt_tiny/adamw/device-graph/stage3/self/fp16/whole/bucket:4096/omp:1/overlap";
constexpr const char* offload =
    "byte_gpt_tiny/adamw/device-fused/stage2/threads:2/fp16/whole/bucket:4096/omp:1/offload:1";

// Places by derivation, as in fault_plan.cpp, which has the numbers of the small workload. Step 1
// runs eagerly, step 2 is captured, step 3 is the first replay and is skipped; in stage 0 both
// ranks read its infinity. In even steps every third tensor has no gradient, so that step 5 is the
// first applied one whose bits differ from the capture: of those tensors rank 0 owns 1 (chunk 4) to
// 34 (chunk 37, 15 elements). Gains and biases, of the group without decay and of a clip group, are
// between chunk 5 and the same end.
//
// The order of streams is deterministic: the simulated device runs the stream that is waited for,
// and of others only the work that events require. A micro-batch gradient is copied out of its
// pinned memory at the first wait, when the memory already holds the last micro-batch's. Rank 0 has
// its own shard of before the update when it gathers too early; whether it has the others' depends
// on them. The loaded moments move every element by more than half a unit of fp16.
constexpr FaultCase plan[] = {
    {.fault = "sums-not-cleared", .case_id = graph, .step = 2, .buffer = "norm_limbs"},
    {.fault = "flag-not-cleared", .case_id = graph, .step = 4, .buffer = "found_inf"},
    {.fault = "t-frozen-at-capture", .case_id = graph, .step = 3, .buffer = "step_scalars"},
    {.fault = "lr-frozen-at-capture", .case_id = groups, .step = 3, .buffer = "step_scalars"},
    {.fault = "idle-bits-frozen-at-capture",
     .case_id = idle,
     .step = 5,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "position_embedding.weight", .first = 4096, .last = 37902}},
    {.fault = "replayed-over-freed-table", .case_id = alone, .step = 3, .buffer = "step_scalars"},
    {.fault = "flags-added-up", .case_id = stage0, .step = 3, .buffer = "found_inf"},
    {.fault = "update-ignores-skip",
     .case_id = graph,
     .step = 3,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_rank0}},
    {.fault = "count-behind-after-skip", .case_id = graph, .step = 4, .buffer = "applied_steps"},
    {.fault = "schedule-row-of-enqueued", .case_id = groups, .step = 4, .buffer = "step_scalars"},
    {.fault = "resume-keeps-schedule-table",
     .case_id = resumed_groups,
     .step = 4,
     .buffer = "step_scalars"},
    {.fault = "schedule-table-filled-once",
     .case_id = long_run,
     .step = 1026,
     .buffer = "step_scalars"},
    {.fault = "clip-before-integers", .case_id = graph, .step = 1, .buffer = "clip_coef"},
    {.fault = "update-reads-first-group",
     .case_id = groups,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = "block0.attention_norm.gain", .first = 5120, .last = 37902}},
    {.fault = "update-reads-first-clip-group",
     .case_id = clip_groups,
     .step = 1,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "block0.attention_norm.gain", .first = 5120, .last = 37902}},
    {.fault = "integers-not-waited-for", .case_id = graph, .step = 1, .buffer = "norm_limbs"},
    {.fault = "grad-freed-before-reduced",
     .case_id = overlap2,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "forward-before-gather",
     .case_id = overlap3,
     .step = 1,
     .buffer = "leaf",
     .says = "the forward visit of unit 0 parameters that are not the gathered ones, first at "
             "token_embedding.weight[0, 0]: got 0xffff ("},
    {.fault = "gather-before-update",
     .case_id = fused,
     .step = 1,
     .buffer = "param_full",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0}},
    {.fault = "gather-not-waited-for",
     .case_id = fused,
     .step = 1,
     .buffer = "param_full",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 0, .last = last_of_model}},
    {.fault = "status-read-early", .case_id = alone, .step = 3, .buffer = "found_inf"},
    // Pinned memory is zero-initialized, which equals the gradient of elements without one.
    {.fault = "offload-grad-before-copied",
     .case_id = offload,
     .step = 1,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 150}},
    {.fault = "staging-reused",
     .case_id = alone,
     .step = 1,
     .buffer = "grad_sum",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_model}},
};

}  // namespace

Span<const FaultCase> device_fault_plan() { return plan; }

}  // namespace zeroproof::verification
