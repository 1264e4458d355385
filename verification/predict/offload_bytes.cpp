#include "verification/predict/offload_bytes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "verification/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t header_bytes = 32;  // of a chunk in a file: number, version, digest
constexpr std::int64_t file_line = 64;

std::int64_t chunks_of(const PredictedStep& shape) {
  const std::int64_t chunk = shape.offload.setting.chunk_numel;
  return shape.offload.numel / chunk + (shape.offload.numel % chunk != 0 ? 1 : 0);
}

std::int64_t first_chunk(const PredictedStep& shape) {
  return std::min(shape.offload.setting.chunk_numel, shape.offload.numel);
}

std::int64_t state_bytes(const PredictedStep& shape, std::int64_t numel) {
  return 4 * (1 + shape.state_buffers) * numel;
}

/// How many elements of every piece are offloaded.
std::vector<std::int64_t> taken(const std::vector<Piece>& pieces, const Offload& offload,
                                const ParamGroups& groups) {
  std::int64_t all = 0;
  for (const Piece& piece : pieces) all += piece.numel;
  const double wanted = offload.fraction * static_cast<double>(all);
  std::vector<std::int64_t> numels(pieces.size(), 0);
  if (offload.order == OffloadOrder::flat) {
    auto left = static_cast<std::int64_t>(wanted);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      numels[i] = std::min(left, pieces[i].numel);
      left -= numels[i];
    }
    return numels;
  }
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [&](std::size_t i) { return std::pair(groups.of(pieces[i].tensor), pieces[i].tensor); };
  std::ranges::stable_sort(order, {}, group);
  std::int64_t before = 0, so_far = 0;  // before the tensor, and with its pieces
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (n == 0 || group(order[n]) != group(order[n - 1])) before = so_far;
    if (static_cast<double>(before) >= wanted) break;
    numels[order[n]] = pieces[order[n]].numel;
    so_far += numels[order[n]];
  }
  return numels;
}

}  // namespace

OffloadShape offload_shape(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                           const Offload& offload, const ParamGroups& groups) {
  OffloadShape shape{offload, 0, 0};
  if (!offload.on()) return shape;
  const std::vector<Piece> pieces = layout.pieces(ranges);
  const std::vector<std::int64_t> numels = taken(pieces, offload, groups);
  std::int64_t end = 0;
  for (const FlatRange& range : ranges) end += range.numel();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    shape.elements += numels[i];
    if (numels[i] == 0) continue;
    // Padding goes with the element before it, that in front of the first one with the first.
    const std::int64_t begin = i == 0 ? 0 : pieces[i].local_begin;
    const std::int64_t next = i + 1 < pieces.size() ? pieces[i + 1].local_begin : end;
    shape.numel += (numels[i] == pieces[i].numel ? next : pieces[i].local_begin + numels[i]) - begin;
  }
  return shape;
}

std::vector<FlatRange> contract_ranges(const PredictedStep& shape, std::int64_t bucket_numel) {
  if (shape.stage == 0) return {{0, shape.padded_numel}};
  std::vector<FlatRange> ranges;
  for (std::int64_t begin = 0; begin < shape.padded_numel; begin += bucket_numel) {
    const FlatRange bucket{begin, begin + std::min(bucket_numel, shape.padded_numel - begin)};
    const FlatRange slice = contract_slice(bucket, shape.world_size, shape.rank);
    if (slice.numel() > 0) ranges.push_back(slice);
  }
  return ranges;
}

std::int64_t offloaded_host_bytes(const PredictedStep& shape) {
  const bool overlap = shape.offload.setting.overlap;
  const auto slots = [&](std::int64_t most) { return std::min(overlap ? most : 1, chunks_of(shape)); };
  std::int64_t bytes = shape.offload.setting.place == OffloadPlace::host
                           ? state_bytes(shape, shape.offload.numel)
                           : slots(3) * state_bytes(shape, first_chunk(shape));
  if (shape.space == Space::device)
    bytes += slots(2) * (4 + num_bytes(shape.param_dtype)) * first_chunk(shape);
  return bytes;
}

std::int64_t offloaded_file_bytes(const PredictedStep& shape) {
  if (shape.offload.setting.place != OffloadPlace::file) return 0;
  const std::int64_t longest = header_bytes + state_bytes(shape, first_chunk(shape));
  return chunks_of(shape) * ((longest + file_line - 1) / file_line * file_line);
}

OffloadTraffic offload_traffic(const PredictedStep& shape) {
  OffloadTraffic traffic;
  if (shape.space == Space::device) {
    traffic.grads_down = 4 * shape.offload.numel;
    traffic.params_up = num_bytes(shape.param_dtype) * shape.offload.elements;
  }
  if (shape.offload.setting.place == OffloadPlace::file) {
    traffic.file_read = state_bytes(shape, shape.offload.numel) + header_bytes * chunks_of(shape);
    traffic.file_written = traffic.file_read;
  }
  return traffic;
}

}  // namespace zeroproof
