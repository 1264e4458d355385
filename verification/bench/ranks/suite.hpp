#pragma once
// What the ranks of one machine are measured with. Rows hold references to the arguments.

#include <vector>

#include "verification/bench/measure/row.hpp"
#include "verification/bench/ranks/data.hpp"
#include "verification/bench/ranks/product_step.hpp"

namespace zeroproof::verification::bench {

/// What the memory does with the bytes of a window step, all ranks at once, and what meeting costs.
void add_rank_limit_rows(std::vector<Row>& rows, RankData& data);

/// The MPI library's collectives around the fused update. No finite check, no norm.
void add_library_rows(std::vector<Row>& rows, RankData& data);

using ProductSteps = std::vector<std::unique_ptr<RankProductStep>>;

/// The production optimizer's step.
void add_product_rows(std::vector<Row>& rows, RankData& data, const ProductSteps& products);

/// Necessary bytes per parameter of a step through windows that needs no look at G before it is used: the ranks' leaves
/// and the state are read, state and parameter written.
double window_bytes(int world_size);

/// Every row once per round on all ranks at the same time, in the order of measure(). A sample lasts from a
/// moment the ranks agree on until the last rank is done; it is the same number on all of them.
void measure_ranks(std::vector<Row>& rows, int rounds, Communicator& comm);

/// warm: malloc keeps its memory, so that the library's temporaries cost it no page faults.
std::vector<Comparison> rank_comparisons(bool warm);

/// Compares what the timed calls, as many steps of every row, left behind. Collective; the same result on all ranks.
std::vector<Check> check_ranks(RankData& data, const ProductSteps& products, std::int64_t steps);

}  // namespace zeroproof::verification::bench
