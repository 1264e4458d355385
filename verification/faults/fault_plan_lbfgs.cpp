// Faults of L-BFGS.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* trained = "lbfgs/byte_gpt_tiny/armijo/threads:3/contract";
constexpr const char* whole_steps = "lbfgs/rosenbrock/none/threads:3/contract";
constexpr const char* nonfinite = "lbfgs/rosenbrock/nonfinite/threads:3/contract";
constexpr const char* trial = "lbfgs/rosenbrock/nonfinite-trial/threads:3/contract";
constexpr const char* failed = "lbfgs/rosenbrock/failed-search/threads:3/contract";
constexpr const char* failed_halves = "lbfgs/rosenbrock/failed-search/threads:2/deepspeed_flat";
constexpr const char* skipped = "lbfgs/rosenbrock/skipped-pair/threads:3/contract";
constexpr const char* no_descent = "lbfgs/rosenbrock/no-descent/threads:3/contract";
constexpr const char* short_lengths = "lbfgs/rosenbrock/wolfe-earlier/threads:3/contract";
constexpr const char* short_lengths_alone = "lbfgs/rosenbrock/wolfe-earlier/self/contract";
constexpr const char* outbid = "lbfgs/rosenbrock/wolfe-failed/threads:3/contract";
constexpr const char* max_eval = "lbfgs/rosenbrock/max-eval/threads:3/contract";

/// A scalar, which rank 0 has too, or an extra evaluation.
constexpr FaultCase at(std::string_view fault, const char* id, std::int64_t step,
                       std::string_view buffer) {
  return {.fault = fault, .case_id = id, .step = step, .buffer = buffer};
}

/// All of x on the first rank that owns elements of rosenbrock.
constexpr FaultCase all_of_a_point(std::string_view fault, const char* id, std::int64_t step,
                                   std::string_view buffer) {
  return {.fault = fault,
          .case_id = id,
          .step = step,
          .rank = 1,
          .buffer = buffer,
          .elements = Elements{.parameter = "a", .first = 0, .last = 2048}};
}

/// The point after the search that takes an earlier trial. The lengths are so short that elements
/// may keep their bits.
constexpr FaultCase in_short_step(std::string_view fault) {
  return {.fault = fault,
          .case_id = short_lengths_alone,
          .step = 2,
          .buffer = "point[4]",
          .elements = Elements{}};
}

// Places by derivation, as in fault_plan.cpp, which has the numbers of byte_gpt_tiny: a changed
// direction changes all of rank 0's elements that have a gradient, 150 to 41983.
//
// point[e] is the point of evaluation e = 0, 1, ... of a step: point[0] at the start of the step,
// and without a search point[n] at the end of iteration n. The first direction from the memory is
// that of iteration 2; iteration 3 is the first with two pairs, one of which can be the wrong one.
// With searches the first move is so short (t = 1 / |g|_1) that its first trial is accepted. In
// byte_gpt_tiny three pairs are kept and step 1 stores at most three, so that the first removal
// happens in the first direction of step 2.
//
// rosenbrock has buckets of two chunks: of three ranks, rank 0 owns nothing, rank 1 the chunk of
// "a" (0 to 2) and the one in which "b" ends (2048). Every element has a gradient. Rank 0's largest
// gradient element is therefore 0, a stationary point, if the maximum is not reduced over ranks. On
// two ranks deepspeed_flat gives each half of all elements, of which subtracting a rounded move
// cannot restore every one.
//
// The disturbed evaluations are those of verification/training/lbfgs/recipe.cpp. In skipped-pair
// the pair of iteration 3 has ys < 0; stored, it makes h negative and the next direction leads
// uphill, so that the step ends before its last evaluation. In nonfinite-trial the trial at
// point[2] is the one that is not accepted, and point[3] the next. A dropped memory has started =
// 0, the first scalar after pending.
//
// The first length of wolfe-earlier is so short that its trial, point[1] of step 1, is almost as
// steep as the start: an implementation that accepts it begins the next iteration at point[2],
// where the search would go on. In step 2 the first of three trials is taken, and point[4] is the
// first trial of the next iteration; from the loss of the last trial, 1e6 higher, every later one
// looks low enough, and the search goes on elsewhere. In step 2 of wolfe-failed all trials are too
// high: point[1] ends a bracket that begins at the start, point[2] is interpolated between the two
// by a cubic, and point[3] between the start and point[2].
constexpr FaultCase plan[] = {
    {.fault = "lbfgs-dot-of-own-shard",
     .case_id = trained,
     .step = 1,
     .buffer = "point[2]",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    {.fault = "lbfgs-dot-in-fp32",
     .case_id = trained,
     .step = 1,
     .buffer = "point[2]",
     .elements = Elements{}},
    all_of_a_point("lbfgs-length-of-own-shard", whole_steps, 1, "point[1]"),
    {.fault = "lbfgs-max-abs-of-own-shard",
     .case_id = nonfinite,
     .step = 1,
     .says = "all_reduce",
     .refused = true},
    at("lbfgs-padding-counted", trained, 1, "report.evaluations"),
    at("lbfgs-curvature-not-tested", skipped, 1, "report.evaluations"),
    at("lbfgs-unmade-move-remembered", no_descent, 3, "pending"),
    {.fault = "lbfgs-newest-pair-removed",
     .case_id = trained,
     .step = 2,
     .buffer = "point[1]",
     .elements =
         Elements{.parameter = "token_embedding.weight", .first = 150, .last = last_of_rank0}},
    all_of_a_point("lbfgs-h-of-oldest-pair", whole_steps, 1, "point[3]"),
    all_of_a_point("lbfgs-history-one-behind", whole_steps, 1, "point[2]"),
    all_of_a_point("lbfgs-old-gradient-aliased", whole_steps, 1, "point[2]"),
    all_of_a_point("lbfgs-second-loop-adds-al", whole_steps, 1, "point[2]"),
    at("lbfgs-pending-lost-on-load", trained, 2, "pending"),
    at("lbfgs-nonfinite-keeps-memory", nonfinite, 1, "started"),
    at("lbfgs-failed-search-keeps-memory", failed, 2, "started"),
    all_of_a_point("lbfgs-failed-search-keeps-x", failed, 2, "master"),
    {.fault = "lbfgs-x-restored-by-subtraction",
     .case_id = failed_halves,
     .step = 2,
     .buffer = "master",
     .elements = Elements{}},
    all_of_a_point("lbfgs-trials-accumulate", trial, 1, "point[3]"),
    at("lbfgs-max-eval-per-iteration", max_eval, 1, "point[3]"),
    all_of_a_point("lbfgs-wolfe-slope-signed", short_lengths, 1, "point[2]"),
    all_of_a_point("lbfgs-wolfe-bracket-not-moved", outbid, 2, "point[3]"),
    all_of_a_point("lbfgs-wolfe-other-root", outbid, 2, "point[2]"),
    in_short_step("lbfgs-wolfe-keeps-last-point"),
    all_of_a_point("lbfgs-wolfe-keeps-last-loss", short_lengths, 2, "point[5]"),
    in_short_step("lbfgs-wolfe-keeps-last-gradient"),
};

}  // namespace

Span<const FaultCase> lbfgs_fault_plan() { return plan; }

}  // namespace zeroproof::verification
