// Faults of the rule muon.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* whole =
    "byte_gpt_tiny/muon/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* ascends =
    "byte_gpt_tiny/muon-heavy-max/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* polar =
    "byte_gpt_tiny/muon+coefficients:polar_express/host/stage0/threads:3/fp16/lockstep/"
    "bucket:4096/omp:1";
constexpr const char* quintic_1 =
    "byte_gpt_tiny/muon+coefficients:quintic+ns_steps:1/host/stage0/threads:3/fp16/lockstep/"
    "bucket:4096/omp:1";
constexpr const char* polar_9 =
    "byte_gpt_tiny/muon+coefficients:polar_express+ns_steps:9/host/stage0/threads:3/fp16/lockstep/"
    "bucket:4096/omp:1";
constexpr const char* original =
    "byte_gpt_tiny/muon+muon_scale:original/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* heads =
    "byte_gpt_tiny/muon+split:heads+muon_scale:unit_rms_norm/host/stage0/threads:3/fp16/lockstep/"
    "bucket:4096/omp:1";
constexpr const char* interleaved =
    "byte_gpt_tiny/muon+split:interleaved/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* owned =
    "byte_gpt_tiny/muon+owners:round_robin/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
constexpr const char* rows =
    "byte_gpt_tiny/muon/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1/layout:fsdp2";
constexpr const char* tp =
    "byte_gpt_tiny/muon/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1/grid:2x1x2";

constexpr const char* shared_2 =
    "byte_gpt_tiny/muon+tensor_parallel:distributed/host/stage0/threads:2/bf16/lockstep/"
    "bucket:4096/omp:1/grid:1x1x2";
// With factors bf16 the rounding of A hides most orders.
constexpr const char* shared_4 =
    "byte_gpt_tiny/muon+factors:fp32+tensor_parallel:distributed/host/stage2/threads:4/bf16/"
    "lockstep/bucket:4096/omp:1/grid:1x1x4";

/// Layouts and TP ranks that split inside chunks need a norm that does not depend on chunks.
void with_exact_norm(RunConfig& config) { config.optimizer.norm = NormForm::exact; }

/// Heads for two TP ranks.
void with_four_heads(RunConfig& config) {
  with_exact_norm(config);
  config.model.width = 20;
  config.model.heads = 4;
  config.overflow_tensor = "block1.mlp.down.weight";
}

// Places by derivation, as in fault_plan.cpp, which has the numbers of the small workload. Embeddings and head are
// adamw's. Tensor t above 1 is chunk t + 3, so the matrices of block 0 are at the chunks 7, 9, 11 (query, key, value), 13
// (attention.output), 17 and 19 (mlp.up and mlp.down), those of block 1 16 chunks later: the first is block0.attention.query.weight,
// 15 x 15, from 7168, and the last block1.mlp.down.weight, 37 x 15 at chunk 35, to 36394. In stage 0 rank 0 has all of them. The
// first one that is not square is block0.mlp.up.weight. With owners in turn the twelfth matrix, the last, is computed by rank 2,
// which also owns its chunk (35, the last of its bucket).
//
// The gradient of a weight of these blocks has no zeros, so a wrong weight of it differs from the first element to the last.
constexpr std::int64_t first_of_matrices = 7 * 1024;
constexpr std::int64_t last_of_matrices = 35 * 1024 + 37 * 15 - 1;

// The tall matrices are mlp.down's; the first and the last element of a matrix have the same place in its transpose. Of 37
// rows rank 0 of 3 owns 13: the larger extent is then 15, the columns. That of wide and square matrices does not depend on
// the rows.
constexpr std::int64_t first_of_tall = 19 * 1024;
constexpr std::int64_t last_of_rank0_rows = 35 * 1024 + 13 * 15 - 1;

constexpr std::string_view tall = "block0.mlp.down.weight";
constexpr std::string_view query = "block0.attention.query.weight";
constexpr std::string_view not_square = "block0.mlp.up.weight";

constexpr FaultCase in_all(std::string_view fault, std::string_view buffer,
                           const char* id = whole) {
  return {.fault = fault,
          .case_id = id,
          .step = 1,
          .buffer = buffer,
          .elements =
              Elements{.parameter = query, .first = first_of_matrices, .last = last_of_matrices}};
}
/// A difference of roundings need not show in every element.
constexpr FaultCase from(std::string_view parameter, std::string_view fault,
                         std::string_view buffer, const char* id = whole,
                         void (*config)(RunConfig&) = nullptr) {
  return {.fault = fault,
          .case_id = id,
          .step = 1,
          .buffer = buffer,
          .elements = Elements{.parameter = parameter},
          .config = config};
}

constexpr FaultCase plan[] = {
    in_all("muon-momentum-of-documentation", "exp_avg"),
    from(query, "muon-without-nesterov", "orthogonal"),
    in_all("muon-maximize-ignored", "exp_avg", ascends),
    from(query, "muon-nesterov-of-old-momentum", "orthogonal"),
    from(query, "muon-momentum-by-lerp", "exp_avg"),
    from(query, "muon-momentum-in-bf16", "exp_avg"),
    in_all("muon-never-orthogonalised", "orthogonal"),
    from(query, "muon-one-step-fewer", "orthogonal"),
    from(query, "muon-rounds-every-operation", "orthogonal"),
    from(query, "muon-set-of-the-same-name", "orthogonal", polar),
    from(query, "muon-last-polynomials", "orthogonal", quintic_1),
    from(query, "muon-polynomials-start-again", "orthogonal", polar_9),
    from(query, "muon-eps-dominates", "orthogonal"),
    from(query, "muon-norm-in-bf16", "orthogonal"),
    from(query, "muon-rounded-before-norm", "orthogonal"),
    from(not_square, "muon-gram-of-long-side", "orthogonal"),
    {.fault = "muon-not-transposed-back",
     .case_id = whole,
     .step = 1,
     .buffer = "orthogonal",
     .elements =
         Elements{.parameter = tall, .first = first_of_tall + 1, .last = last_of_matrices - 1}},
    in_all("muon-orthogonal-clipped", "orthogonal"),
    in_all("muon-rate-of-constructor", "master"),
    from(not_square, "muon-scale-of-transposed", "master", original),
    in_all("muon-scale-of-padded-shape", "master"),
    in_all("muon-decay-not-stored", "master"),
    from(query, "muon-decay-by-scaled-rate", "master"),
    from(query, "muon-decay-after-update", "master"),
    from(query, "muon-slice-of-shard", "orthogonal", rows, with_exact_norm),
    from(query, "muon-block-of-tp-rank", "orthogonal", tp, with_four_heads),
    from(query, "muon-gram-of-tp-rank", "orthogonal", shared_2, with_four_heads),
    from(query, "muon-folds-in-rank-order", "orthogonal", shared_4, with_four_heads),
    from(query, "muon-folds-in-bf16", "orthogonal", shared_2, with_four_heads),
    {.fault = "muon-momentum-before-check",
     .case_id = whole,
     .step = 3,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = query}},
    in_all("muon-once-per-micro-batch", "exp_avg"),
    {.fault = "muon-last-matrix-without-owner",
     .case_id = owned,
     .step = 1,
     .rank = 2,
     .buffer = "orthogonal",
     .elements =
         Elements{
             .parameter = "block1.mlp.down.weight", .first = 35 * 1024, .last = last_of_matrices}},
    {.fault = "muon-orthogonal-of-last-step",
     .case_id = whole,
     .step = 2,
     .buffer = "orthogonal",
     .elements = Elements{.parameter = query}},
    from(query, "muon-scale-of-whole-matrix", "master", heads),
    {.fault = "muon-scale-of-shard",
     .case_id = rows,
     .step = 1,
     .buffer = "master",
     .elements = Elements{.parameter = tall, .first = first_of_tall, .last = last_of_rank0_rows},
     .config = with_exact_norm},
    in_all("muon-second-moment-moves", "exp_avg_sq"),
    {.fault = "muon-norm-of-matrices", .case_id = whole, .step = 1, .buffer = "norm_limbs"},
    from(query, "muon-parts-not-split", "orthogonal", heads),
    from("block0.attention.output.weight", "muon-parts-contiguous", "orthogonal", interleaved),
    from(query, "muon-parts-of-rows", "orthogonal", heads),
    {.fault = "muon-embedding-orthogonalised",
     .case_id = whole,
     .step = 1,
     .buffer = "exp_avg",
     .elements = Elements{.parameter = "token_embedding.weight", .first = 0}},
    {.fault = "muon-resumes-other-family",
     .case_id = whole,
     .buffer = "exp_avg",
     .elements =
         Elements{.parameter = query, .first = first_of_matrices, .last = last_of_matrices}},
};

}  // namespace

Span<const FaultCase> muon_fault_plan() { return plan; }

}  // namespace zeroproof::verification
