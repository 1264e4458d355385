#pragma once
// A small transformer trained with parameters and state in every format, and its perplexity on
// other text.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/base/span.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::perplexity {

/// Steps after which the held-out text is evaluated.
inline constexpr std::int64_t points[] = {10, 50, 100, 150, 200, 250, 300};

/// Formats of parameters and state; all other settings are those of the main job.
struct Form {
  std::string name;  ///< without " | ", which separates fields of the record
  DType params = DType::bf16;
  void (*change)(RunConfig&) = [](RunConfig&) {};
};

/// Parameters of bf16 with state of fp32 come first: the others are compared with them.
const std::vector<Form>& forms();

/// exp of the mean loss in nats per byte, over all windows of the held-out text, after the first
/// `num_points` of the points. The same bits on every machine and for any number of threads (R18).
std::vector<double> perplexities(const Form& form, std::uint64_t seed, std::size_t num_points);

}  // namespace zeroproof::perplexity
