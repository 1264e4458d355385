#include "verification/bench/research/errors/batch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace zeroproof::errors {

void Figure::add(const Figure& other) {
  judged += other.judged;
  if (!(other.worst <= worst) && !std::isnan(worst))
    worst = other.worst;  // a NaN is worst for good
}

std::vector<float> Batch::positive(std::int64_t count, int low, int high) {
  std::vector<float> values(count);
  const auto binades = static_cast<std::uint64_t>(high - low);
  for (float& value : values) {
    const std::uint64_t w = word();
    const auto exponent =
        static_cast<std::uint32_t>(127 + low) + static_cast<std::uint32_t>((w >> 32) % binades);
    value = std::bit_cast<float>(exponent << 23 | static_cast<std::uint32_t>(w & 0x7FFFFFU));
  }
  return values;
}

std::vector<float> Batch::numbers(std::int64_t count, int low, int high) {
  std::vector<float> values = positive(count, low, high);
  for (std::size_t i = 0; i < values.size(); i += 64) {
    std::uint64_t signs = word();
    for (std::size_t k = i; k < std::min(i + 64, values.size()); ++k, signs >>= 1) {
      if ((signs & 1) != 0) values[k] = -values[k];
    }
  }
  return values;
}

Figure& Batch::of(const char* result) {
  for (auto& [name, figure] : figures_) {
    if (name == result) return figure;
  }
  return figures_.emplace_back(result, Figure{}).second;
}

}  // namespace zeroproof::errors
