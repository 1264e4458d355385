// Faults of saved state, and of the state a run resumes from.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* same_ranks = "resume/adamw/3:2-to-3:2/fp16/contract-to-contract/after:4";
constexpr const char* after_growth = "resume/adamw/3:2-to-3:2/fp16/contract-to-contract/after:5";
constexpr const char* idle = "resume/adamw-idle/3:2-to-3:2/fp16/contract-to-contract/after:4";

constexpr const char* scales =
    "resume/fp8-delayed+amax_choice:most_recent/3:2-to-3:2/e5m2/contract-to-contract/after:4";
constexpr const char* stored =
    "resume/adamw+exp_avg_dtype:e4m3/3:2-to-3:2/fp16/contract-to-contract/after:4";

/// Of rank 0 by default: of every bucket of 4 chunks it has the first, rank 1 the second, and rank
/// 2 the rest.
constexpr FaultCase loaded(std::string_view fault, std::string_view buffer,
                           std::string_view parameter, std::int64_t first, std::int64_t last,
                           int rank = 0, const char* id = same_ranks) {
  return {.fault = fault,
          .case_id = id,
          .step = 4,
          .rank = rank,
          .buffer = buffer,
          .elements = Elements{.parameter = parameter, .first = first, .last = last}};
}
constexpr FaultCase scalar(std::string_view fault, const char* id, std::int64_t step,
                           std::string_view buffer) {
  return {.fault = fault, .case_id = id, .step = step, .buffer = buffer};
}

// Places by derivation, as in fault_plan.cpp, which has the numbers of byte_gpt_tiny. A wrong saved
// state is found when it is loaded: the step is the one that was saved. The seeded first state has
// no zeros.
//
// The scale grows every two good steps, and step 3 overflows: step 2 raises the scale above its
// start, step 3 lowers it again and uses up the hysteresis; step 4 counts as one good step, step 5
// is the second. The head begins at 39936 (chunk 39) and ends at 43775; the last bucket has chunks
// 40, 41 and 42.
constexpr FaultCase plan[] = {
    scalar("resume-forgets-steps", same_ranks, 4, "applied_steps"),
    scalar("resume-forgets-scale", after_growth, 5, "loss_scaler"),
    scalar("resume-forgets-growth", same_ranks, 4, "loss_scaler"),
    scalar("resume-forgets-hysteresis", same_ranks, 4, "loss_scaler"),
    scalar("resume-forgets-tensor-steps", idle, 4, "tensor_steps"),
    loaded("resume-forgets-moment", "exp_avg", "token_embedding.weight", 0, last_of_rank0),
    loaded("resume-reaches-first-rank-alone", "exp_avg", "token_embedding.weight", 1024, 43007, 1),
    // The first tensor has no tensor before it; the second is short, so that a shift by its padding
    // reads only padding.
    loaded("resume-counts-padding", "exp_avg", "position_embedding.weight", 4096, last_of_rank0),
    // Of the tensors of several chunks rank 0 has the first chunk of the embedding and the second of the head.
    loaded("resume-reads-the-next-shard", "exp_avg", "token_embedding.weight", 0, last_of_rank0),
    // A tensor as long as the next one, in a chunk that is the first of its bucket: the biases at
    // the ends of both blocks (chunks 20 and 36), each followed by the gain of a norm.
    loaded("resume-shifts-index", "exp_avg_sq", "block0.mlp.down.bias", 20480, 36878),
    loaded("resume-saves-before-the-update", "exp_avg_sq", "token_embedding.weight", 0,
           last_of_rank0),
    loaded("resume-saves-a-torn-state", "master", "token_embedding.weight", 2048, last_of_model, 2),
    {.fault = "resume-saves-rounded-masters",
     .case_id = same_ranks,
     .step = 4,
     .buffer = "master",
     .elements = Elements{.parameter = "token_embedding.weight"}},
    // Every third tensor has no gradient in even steps: rank 0 owns 1, 13 and 25, the last of them
    // the bias of block 1's values, 15 elements at chunk 28.
    loaded("resume-loses-resting-tensors", "master", "position_embedding.weight", 4096, 28686, 0,
           idle),
    // The loaded state is correct; the first step after it is wrong.
    scalar("resume-keeps-constructor-rate", same_ranks, 5, "step_scalars"),
    scalar("resume-keeps-constructor-powers", same_ranks, 5, "step_scalars"),
    // Scales are compared before the codes that use them. The largest code of a block is the
    // largest code of the format: read as values, codes give a scale of 1 and are stored unchanged.
    scalar("resume-saves-scale-by-reference", scales, 4, "param_scale"),
    scalar("resume-forgets-state-scales", stored, 4, "exp_avg_scale"),
};

}  // namespace

Span<const FaultCase> resume_fault_plan() { return plan; }

}  // namespace zeroproof::verification
