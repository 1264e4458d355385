// The result of a calibration does not depend on the ranks (1 to 8) of the batches, nor on their
// order.

#include <doctest.h>

#include <algorithm>
#include <cmath>

#include "common/base/philox.hpp"
#include "reference/operations.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/tools/quantize/calibration/input_statistics.hpp"
#include "verification/training/ranks/world.hpp"

namespace calibration_split_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

constexpr std::size_t num_batches = 11;
constexpr std::int64_t rows = 9, channels = 5;
constexpr int most_ranks = 8, splits_each = 40;

/// Batches whose magnitudes differ strongly, so that bins widen in between.
std::vector<float> batch(std::size_t number) {
  const Philox philox(5, 1);
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * channels; ++i) {
    const float size = std::ldexp(1.0F, static_cast<int>(number * 5 % 11) - 6);
    values.push_back(philox.bell(1000 * number + static_cast<std::uint64_t>(i)) * size);
  }
  return values;
}

QuantPayload payload_of(QuantFormat format, CalibrationMethod method) {
  QuantPayload payload;
  payload.format = format;
  payload.calibration = method;
  payload.bins = 300;
  payload.percentile = 97;
  return payload;
}

/// One layer for every method.
LayerInputs fresh_layers() {
  const QuantPayload payloads[] = {payload_of(QuantFormat::int8, CalibrationMethod::max),
                                   payload_of(QuantFormat::e4m3, CalibrationMethod::percentile),
                                   payload_of(QuantFormat::int8, CalibrationMethod::entropy),
                                   payload_of(QuantFormat::int4, CalibrationMethod::mse),
                                   payload_of(QuantFormat::e5m2, CalibrationMethod::mse),
                                   payload_of(QuantFormat::int8, CalibrationMethod::smoothquant)};
  LayerInputs layers;
  for (const QuantPayload& payload : payloads)
    layers.try_emplace(static_cast<int>(layers.size()), payload, HistogramGrowth::doubling,
                       channels);
  return layers;
}

template <class Observer>
void watch(LayerInputs& layers, const std::vector<std::size_t>& batches) {
  Observer observer(layers);
  for (const std::size_t number : batches) {
    const std::vector<float> values = batch(number);
    for (const auto& layer : layers) observer.input(layer.first, {values.data(), rows, channels});
  }
}

/// The batches of each rank, in its order; some ranks may have none.
using Split = std::vector<std::vector<std::size_t>>;

/// All results, as words; the same on every rank, or the test fails.
std::vector<std::uint64_t> found(const Split& split) {
  const auto ranks = static_cast<int>(split.size());
  const auto world =
      make_local_world(parse_world(ranks == 1 ? "self" : "threads:" + std::to_string(ranks)), 60);
  std::vector<std::vector<std::uint64_t>> of_ranks(split.size());
  world->run([&](int rank, const RankComparison::Communicators& comms) {
    LayerInputs layers = fresh_layers();
    const std::vector<std::size_t>& own = split[rank];
    watch<InputObserver>(layers, own);
    for (auto& layer : layers) layer.second.merge(*comms.harness);
    watch<ErrorObserver>(layers, own);
    merge_errors(layers, *comms.harness);
    std::vector<std::uint64_t>& words = of_ranks[rank];
    for (const auto& layer : layers) {
      const InputStatistics& seen = layer.second;
      words.push_back(seen.amax({}));
      words.insert(words.end(), seen.channels.begin(), seen.channels.end());
      words.insert(words.end(), seen.histogram.count().begin(), seen.histogram.count().end());
      for (NormLimbs limbs : seen.errors) {
        reference::grad_norm_normalise(limbs);  // carries are free before (R12)
        words.insert(words.end(), limbs.limbs.begin(), limbs.limbs.end());
        words.push_back(limbs.nan_count + limbs.inf_count);
      }
    }
  });
  for (const auto& words : of_ranks) CHECK(words == of_ranks[0]);
  return of_ranks[0];
}

}  // namespace

TEST_CASE("any split of the batches over 1 to 8 ranks, in any order, has the bits of one rank") {
  std::vector<std::size_t> all;
  for (std::size_t number = 0; number < num_batches; ++number) all.push_back(number);
  const std::vector<std::uint64_t> whole = found({all});
  REQUIRE(whole.size() > 2000);
  const Philox philox(5, 2);
  std::uint64_t draw = 0;
  int splits = 0, different = 0, idle = 0;
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for (int i = 0; i < splits_each; ++i) {
      std::vector<std::size_t> order = all;
      for (std::size_t k = order.size(); k > 1; --k)
        std::swap(order[k - 1], order[philox.below(draw++, k)]);
      Split split(static_cast<std::size_t>(ranks));
      for (const std::size_t number : order)
        split[philox.below(draw++, static_cast<std::uint64_t>(ranks))].push_back(number);
      idle += static_cast<int>(
          std::ranges::count_if(split, [](const auto& own) { return own.empty(); }));
      if (found(split) != whole) ++different;
      ++splits;
    }
  }
  CHECK(splits == 320);
  CHECK(different == 0);
  CHECK(idle > 50);  // ranks without batches take part too
}

}  // namespace calibration_split_test
