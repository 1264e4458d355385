#include "verification/compare/judge/mean_loss.hpp"

#include <cmath>
#include <limits>

namespace zeroproof::verification {

std::vector<MicroBatchLoss> losses_of(GradProvider& provider,
                                      Span<const std::int64_t> micro_batches) {
  std::vector<MicroBatchLoss> losses;
  for (const std::int64_t micro_batch : micro_batches) {
    losses.push_back({micro_batch, provider.micro_batch_grad(micro_batch).loss});
  }
  return losses;
}

double mean_loss(Span<const MicroBatchLoss> mine, std::int64_t count, Communicator& ranks) {
  const auto width = static_cast<std::size_t>(count);
  std::vector<double> losses(width, std::numeric_limits<double>::quiet_NaN());
  for (const MicroBatchLoss& loss : mine) losses[loss.micro_batch] = loss.value;
  const auto size = static_cast<std::size_t>(ranks.world_size());
  std::vector<double> all(width * size);
  std::vector<Span<std::byte>> places;
  for (std::size_t r = 0; r < size; ++r)
    places.push_back(std::as_writable_bytes(Span<double>(all.data() + r * width, width)));
  ranks.all_gather(std::as_bytes(Span<const double>(losses)), places);
  double mean = 0;
  for (std::size_t j = 0; j < width; ++j) {
    double value = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t r = 0; r < size && std::isnan(value); ++r) value = all[r * width + j];
    mean += value / static_cast<double>(count);
  }
  return mean;
}

}  // namespace zeroproof::verification
