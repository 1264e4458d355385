#pragma once
// What a checkpoint costs: the time until it is durable, against a file of as many bytes that is written straight, and
// what an asynchronous one takes from the steps beside it.

#include <cstdint>
#include <string>
#include <vector>

#include "verification/bench/measure/row.hpp"
#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

/// One number of ranks. Samples are by round.
struct SaveResult {
  /// Steps of the optimizer alone, beside which an asynchronous save goes on.
  static constexpr int steps = 10;

  ProductCase what;            ///< ranks are threads of this process
  std::int64_t num_bytes = 0;  ///< of the checkpoint's files
  std::vector<double> raw;     ///< seconds: a file of as many bytes, written straight
  std::vector<double> best;    ///< the same, from huge pages
  std::vector<double> save;    ///< a save, until it is durable
  std::vector<double> alone;   ///< `steps` steps
  std::vector<double> beside;  ///< the same, with an asynchronous save that begins and ends among them
  std::vector<double> copy;    ///< of these, the time in which training stands while the state is copied
  std::vector<Check> checks;

  std::vector<double> raw_to_save() const;      ///< 1: as fast as a file that is written straight
  std::vector<double> best_to_save() const;     ///< 1: as fast as the disk
  std::vector<double> beside_to_alone() const;  ///< 1: it costs nothing
};

/// Writes into a folder of its own inside of `folder`, which is removed. Errors: io; unavailable for memory.
std::vector<SaveResult> measure_saves(const std::vector<ProductCase>& cases, int rounds,
                                      const std::string& folder);

}  // namespace zeroproof::verification::bench
