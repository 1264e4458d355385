#include "verification/predict/offload_bytes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "verification/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t file_parts = 4;     // of a chunk in files
constexpr std::int64_t header_bytes = 32;  // of each: number, version, digest
constexpr std::int64_t file_line = 64;

std::int64_t chunks_of(const PredictedStep& shape) {
  const std::int64_t chunk = shape.offload.setting.chunk_numel;
  return shape.offload.numel / chunk + (shape.offload.numel % chunk != 0 ? 1 : 0);
}

std::int64_t first_chunk(const PredictedStep& shape) {
  return std::min(shape.offload.setting.chunk_numel, shape.offload.numel);
}

/// On a device they are in memory of the host.
bool grads_in_file(const PredictedStep& shape) {
  return shape.offload.setting.place == OffloadPlace::file && shape.space == Space::host;
}

std::int64_t state_bytes(const PredictedStep& shape, std::int64_t numel) {
  return 4 * (1 + shape.state_buffers) * numel;
}

/// Pages that have elements of stretches, which come in increasing order; a page of two counts once.
class GradPages {
 public:
  explicit GradPages(std::int64_t end) : end_(end) {}
  void add(const FlatRange& stretch) {
    const std::int64_t page = grad_page_numel();
    const std::int64_t begin = std::max(stretch.begin / page * page, counted_);
    counted_ = std::min((stretch.end + page - 1) / page * page, end_);
    numel_ += std::max<std::int64_t>(counted_ - begin, 0);
  }
  std::int64_t numel() const { return numel_; }

 private:
  std::int64_t end_, counted_ = 0, numel_ = 0;
};

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
  OffloadShape shape{offload, 0, 0, 0};
  if (!offload.on()) return shape;
  const std::vector<Piece> pieces = layout.pieces(ranges);
  const std::vector<std::int64_t> numels = taken(pieces, offload, groups);
  std::int64_t end = 0;
  for (const FlatRange& range : ranges) end += range.numel();
  GradPages pages(end);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    shape.elements += numels[i];
    if (numels[i] == 0) continue;
    // Padding goes with the element before it, that in front of the first one with the first.
    const std::int64_t begin = i == 0 ? 0 : pieces[i].local_begin;
    const std::int64_t next = i + 1 < pieces.size() ? pieces[i + 1].local_begin : end;
    const std::int64_t last = numels[i] == pieces[i].numel ? next : pieces[i].local_begin + numels[i];
    shape.numel += last - begin;
    if (offload.grads) pages.add({begin, last});
  }
  shape.grads = pages.numel();
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
                           : state_bytes(shape, first_chunk(shape));
  const std::int64_t grad = shape.offload.setting.grads ? 0 : 4;  // the host reads it where it is
  if (shape.space == Space::device)
    bytes += slots(2) * (grad + num_bytes(shape.param_dtype)) * first_chunk(shape);
  if (!grads_in_file(shape)) bytes += 4 * shape.offload.grads;
  return bytes + 4 * shape.scale_blocks;  // the amax of what is offloaded
}

std::int64_t offloaded_file_bytes(const PredictedStep& shape) {
  if (shape.offload.setting.place != OffloadPlace::file) return 0;
  const auto lines = [](std::int64_t bytes) { return (bytes + file_line - 1) / file_line; };
  // Buffers of a part end with a line.
  const std::int64_t part_numel =
      lines(4 * ((first_chunk(shape) + file_parts - 1) / file_parts)) * file_line / 4;
  const std::int64_t part = lines(header_bytes + state_bytes(shape, part_numel)) * file_line;
  const std::int64_t grads = grads_in_file(shape) ? 4 * shape.offload.grads : 0;
  return grads + chunks_of(shape) * file_parts * part;
}

OffloadTraffic offload_traffic(const PredictedStep& shape) {
  OffloadTraffic traffic;
  if (shape.space == Space::device) {
    traffic.grads_down = 4 * shape.offload.numel;
    traffic.params_up = num_bytes(shape.param_dtype) * shape.offload.elements;
  }
  if (shape.offload.setting.place == OffloadPlace::file) {
    traffic.file_written =
        state_bytes(shape, shape.offload.numel) + file_parts * header_bytes * chunks_of(shape);
    const int passes = shape.scale_blocks > 0 ? 2 : 1;  // codes wait for the scales
    traffic.file_read = passes * traffic.file_written;
  }
  return traffic;
}

}  // namespace zeroproof
