#pragma once
// Parts of the trace's text that are made in files of their own.

#include <cstdint>
#include <string>
#include <vector>

#include "verification/trace/table.hpp"
#include "verification/trace/trace.hpp"

namespace zeroproof::verification {

/// Global indices of all elements of tensors, in order; padding left out.
std::vector<std::int64_t> elements_of(const FlatLayout& layout);

/// "weight[0,3]" for each of elements_of.
std::vector<std::string> element_names(const FlatLayout& layout);

/// An inner node of the canonical tree that an addition makes (R11).
struct TracedNode {
  int level = 0;
  std::int64_t index = 0;
  std::vector<float> values;  // [padded_numel]
};

/// Level by level. The last one is G, unless there is one micro-batch.
std::vector<TracedNode> traced_nodes(const StepTrace& trace);

/// Leaves, messages and nodes of the reduce phase.
std::string gradient_text(const StepTrace& trace);

}  // namespace zeroproof::verification
