#pragma once
// Parts of the trace's text that have files of their own.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contracts/grad_sum.hpp"
#include "verification/tools/trace/table.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// Global indices of all elements of tensors, in order; padding left out.
std::vector<std::int64_t> elements_of(const FlatLayout& layout);

/// "weight[0,3]" for each of elements_of.
std::vector<std::string> element_names(const FlatLayout& layout);

/// An inner node of the canonical tree, the result of an addition (R11).
struct TracedNode {
  int level = 0;
  std::int64_t index = 0;
  std::vector<float> values;  // [padded_numel]
};

// Steps are indices into TracedRank::steps.

/// Level by level. The last one is G, unless there is one micro-batch.
std::vector<TracedNode> traced_nodes(const StepTrace& trace, std::size_t step);

/// Nodes that a rank sends in a step, in the order of their first micro-batches: where
/// micro-batches are assigned strided its leaves, one in each micro-step, otherwise the nodes left
/// on its stack (R11).
std::vector<TreeNode> sent_nodes(const StepTrace& trace, int rank);

/// The rank that computes each micro-batch [M].
std::vector<int> computing_ranks(const StepTrace& trace);

/// Leaves, messages and nodes of the reduce phase.
std::string gradient_text(const StepTrace& trace, std::size_t step);

/// The class a buffer of elements belongs to; g1 and g are in the memory of G, or in buffers of
/// their own.
std::optional<MemoryClass> class_of(BufferId id);

/// Whether a buffer holds words rather than elements; a rank that owns nothing has buffers without
/// ranges too.
bool holds_words(BufferId id);

/// Name of a word of such a buffer: "inv_scale", "growth_tracker", "limb10", "clip_coef",
/// "param_scale[3]".
std::string word_name(BufferId id, std::int64_t word);

/// Integers stay integers; the words of step scalars are floats, but for two flags.
DType word_dtype(const TracedBuffer& buffer, std::int64_t word);

/// The clip group a word is of: limbs, norms and coefficients have one for each group.
std::int64_t clip_group_of(BufferId id, std::int64_t word);

}  // namespace zeroproof::verification
