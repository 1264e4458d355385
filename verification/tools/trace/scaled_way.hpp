#pragma once
// From a master to the value that the model reads, where parameters have 8 bits (R24).

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// One element of a shard in a phase cast.
struct ScaledWay {
  std::int64_t parameter = 0;  ///< as in elements_of()
  std::int64_t block = 0;      ///< among those of all tensors
  float master = 0;
  float scale = 0;
  float scaled = 0;        ///< y = v * scale; v is the master, or its bf16 value
  std::uint64_t code = 0;  ///< bits of the stored code
  float read = 0;          ///< x = code * scale_inv
};

/// Of a rank that is shown, in the order of its elements; none in a skipped step, or without
/// scales.
std::vector<ScaledWay> scaled_ways(const StepTrace& trace, std::size_t rank, std::size_t step);

/// A table for every rank that owns something.
std::string scaled_text(const StepTrace& trace, std::size_t step);

/// "ways": of phase cast.
Json ways_json(const StepTrace& trace, std::size_t step, Phase phase);

}  // namespace zeroproof::verification
