#pragma once
// Whole steps through the public interface, beside what they are made of, in the same rounds.

#include <string>
#include <vector>

#include "verification/bench/measure/row.hpp"
#include "verification/bench/measure/worker_team.hpp"
#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

struct ProductResult {
  ProductCase what;
  Row step;                            ///< the product's; its page faults are those after the second step
  Row twins;                           ///< the same step by twins (TwinStep::step)
  Row addition;                        ///< one leaf onto a sum
  std::vector<double> reduce_seconds;  ///< [rounds] of the product's step in Phase::reduce
  std::vector<double>
      limit_seconds;     ///< [rounds] what only moving the bytes takes: M - 1 additions, read, update
  double num_bytes = 0;  ///< moved by the limit, per parameter
  std::vector<Check> checks;

  // Ratios within rounds.
  std::vector<double> step_to_twins() const;
  std::vector<double> step_to_limit() const;
  std::vector<double> reduce_to_addition() const;  ///< reduce phase per leaf / one addition
};

/// The rows of an ordinary run: 1, 69 and 10,000 tensors; 1, 4 and 16 micro-batches; fp32 and bf16 gradients; stages 0
/// to 3.
std::vector<ProductCase> usual_cases(std::int64_t numel, std::int64_t bucket_numel, int threads);

/// One case after another, so that only one optimizer is in memory; inside of a case every row once per round, in
/// another order each round. After that the bits of each are compared with the contract's, and one step with an
/// infinite gradient must be skipped. save: file for the inputs and results of the last case (save.hpp), "" for none.
/// Errors: as require_possible; io if the file cannot be written.
std::vector<ProductResult> measure_products(const std::vector<ProductCase>& cases, int rounds,
                                            WorkerTeam& team, const std::string& save);

}  // namespace zeroproof::verification::bench
