// Text of phase reduce: the leaves, the nodes of the tree, and the ranks that send them.

#include <bit>

#include "reference/operations.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

std::string node_name(const TreeNode& node) {
  return "(" + std::to_string(node.level) + "," + std::to_string(node.index) + ")";
}

TraceColumn column_of(const StepTrace& trace, const std::string& title,
                      const std::vector<float>& values) {
  TraceColumn column{title, {}};
  for (const std::int64_t element : elements_of(trace.model.layout())) {
    const auto bits = std::bit_cast<std::uint32_t>(values[element]);
    column.cells.push_back(shown_value(bits, DType::fp32));
  }
  return column;
}

std::string sent(const StepTrace& trace) {
  std::string out;
  for (int rank = 0; rank < trace.settings.world_size; ++rank) {
    const std::vector<TreeNode> nodes = sent_nodes(trace, rank);
    out += "  rank " + std::to_string(rank) +
           (nodes.empty() ? " has no micro-batch and sends nothing"
                          : " sends every owner its part of");
    for (const TreeNode& node : nodes) out += " " + node_name(node);
    out += "\n";
  }
  return out;
}

/// Stage 3: events of units on a rank, and the bytes it sends for them.
std::string visits_text(const StepTrace& trace, std::size_t step) {
  std::string out =
      "\n  Units: a layer's parameters are gathered, used and released; * on a rank without a "
      "micro-batch\n";
  for (std::size_t r = 0; r < trace.production.size(); ++r) {
    const TracedStep& mine = trace.production[r].steps[step];
    std::string line = "rank " + std::to_string(r) + ":";
    for (const TracedVisit& visit : mine.visits) {
      line += " " + std::string(name(visit.event)) + " " +
              TracedModel::unit_name(static_cast<std::size_t>(visit.unit)) +
              (visit.micro_batch < 0 ? "*" : "(" + std::to_string(visit.micro_batch) + ")");
      line += visit.event == TracedVisit::Event::release ? ";" : ",";
    }
    line.back() = '.';
    std::int64_t bytes = 0;
    for (const TracedSpan& span : mine.collectives) {
      if (span.phase != Phase::reduce || span.name != "all_gather") continue;
      for (const std::int64_t sent : span.sent) bytes += sent;
    }
    out += wrapped({line + " It sends " + std::to_string(bytes) + " bytes of parameters."},
                   trace_columns, "  ");
  }
  return out;
}

}  // namespace

std::vector<int> computing_ranks(const StepTrace& trace) {
  std::vector<int> ranks(trace.settings.micro_batches);
  for (int rank = 0; rank < trace.settings.world_size; ++rank) {
    for (const std::int64_t j : micro_batches_of(trace.shape(rank), rank)) {
      ranks[j] = rank;
    }
  }
  return ranks;
}

std::vector<TreeNode> sent_nodes(const StepTrace& trace, int rank) {
  const std::vector<std::int64_t> mine = micro_batches_of(trace.shape(rank), rank);
  std::vector<TreeNode> nodes;
  if (trace.shape(rank).strided()) {
    for (const std::int64_t j : mine) nodes.push_back({0, j});
  } else if (!mine.empty()) {
    nodes = reference::maximal_nodes(mine.front(), mine.back() + 1);
  }
  return nodes;
}

std::vector<TracedNode> traced_nodes(const StepTrace& trace, std::size_t step) {
  std::vector<std::vector<float>> below = trace.leaves(step);
  std::vector<TracedNode> nodes;
  for (int level = 1; below.size() > 1; ++level) {
    std::vector<std::vector<float>> here;
    for (std::size_t k = 0; 2 * k < below.size(); ++k) {
      if (2 * k + 1 == below.size()) {  // no right child: the same bits, and no separate node
        here.push_back(below[2 * k]);
        continue;
      }
      std::vector<float> sum(below[2 * k].size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = below[2 * k][i] + below[2 * k + 1][i];
      nodes.push_back({level, static_cast<std::int64_t>(k), sum});
      here.push_back(std::move(sum));
    }
    below = std::move(here);
  }
  return nodes;
}

std::string gradient_text(const StepTrace& trace, std::size_t step) {
  const std::vector<int> ranks = computing_ranks(trace);
  const std::vector<std::vector<float>> values = trace.leaves(step);
  std::vector<TraceColumn> leaves;
  for (std::size_t j = 0; j < ranks.size(); ++j) {
    const std::string title =
        "leaf (0," + std::to_string(j) + "), rank " + std::to_string(ranks[j]);
    leaves.push_back(column_of(trace, title, values[j]));
  }
  const TraceColumn labels{"", element_names(trace.model.layout())};
  std::string out =
      "\n  Leaves, in fp32, times the loss scale; leaf j is node (0,j) of the tree\n" +
      table(labels, leaves);
  out += "\n  Messages: " +
         std::string(trace.shape(0).strided()
                         ? "one exchange per micro-step, so that a leaf can be dropped at once\n"
                         : "one exchange per step, of the nodes left on every rank's stack\n");
  out += sent(trace);
  if (trace.settings.stage == 3) out += visits_text(trace, step);
  std::vector<TraceColumn> nodes;
  for (const TracedNode& node : traced_nodes(trace, step)) {
    const std::string title = node_name({node.level, node.index}) + " = " +
                              node_name({node.level - 1, 2 * node.index}) + " + " +
                              node_name({node.level - 1, 2 * node.index + 1});
    nodes.push_back(column_of(trace, title, node.values));
  }
  if (nodes.empty()) return out;
  return out +
         "\n  Nodes: node (l,k) covers micro-batches k 2^l to (k+1) 2^l - 1; one fp32 addition "
         "each\n" +
         table(labels, nodes);
}

}  // namespace zeroproof::verification
