#include "verification/tools/plan/predict/offload_bytes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/step/state_format.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t file_parts = 4;     // of a chunk in files
constexpr std::int64_t header_bytes = 32;  // of each: number, version, digest
constexpr std::int64_t file_line = 64;

std::int64_t num_state_blocks(std::int64_t numel) {
  return (numel + state_block_numel - 1) / state_block_numel;
}
std::int64_t whole_blocks(std::int64_t numel) {
  return num_state_blocks(numel) * state_block_numel;
}

/// Chunks are whole blocks where there are scales.
std::int64_t first_chunk(const PredictedStep& shape) {
  const std::int64_t numel = std::min(shape.offload.setting.chunk_numel, shape.offload.numel);
  return shape.scaled_buffers() == 0 ? numel : whole_blocks(numel);
}

std::int64_t chunks_of(const PredictedStep& shape) {
  const std::int64_t chunk = first_chunk(shape);
  return chunk == 0 ? 0 : (shape.offload.numel + chunk - 1) / chunk;
}

/// On a device they are in memory of the host.
bool grads_in_file(const PredictedStep& shape) {
  return shape.offload.setting.place == OffloadPlace::file && shape.space == Space::host;
}

/// Of a parameter, and its code by columns if that is another one.
std::int64_t code_bytes(const PredictedStep& shape) {
  return (shape.column_blocks > 0 ? 2 : 1) * num_bytes(shape.param_dtype);
}

std::int64_t state_bytes(const PredictedStep& shape, std::int64_t numel) {
  return shape.master_bytes * numel + shape.state_bytes(numel, numel / state_block_numel);
}

/// Elements that are in one part of a chunk.
std::int64_t file_unit(const PredictedStep& shape) {
  if (shape.scaled_buffers() > 0) return state_block_numel;
  std::int64_t narrowest = shape.master_bytes;
  for (const StateFormat format : shape.state_formats)
    narrowest = std::min(narrowest, num_bytes(dtype_of(format)));
  return file_line / narrowest;
}

/// Pages that have elements of stretches, which come in increasing order; a page of two counts
/// once.
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

/// A piece, of which the elements [begin, end) may be offloaded, and so many of them are.
struct OffloadedPart {
  Piece piece;
  std::int64_t begin = 0, end = 0;
  std::int64_t taken = 0;

  std::int64_t local_begin() const { return piece.local_begin + begin; }
};

std::vector<OffloadedPart> offloadable_parts(const FlatLayout& layout,
                                             const std::vector<FlatRange>& ranges, bool in_blocks) {
  std::vector<OffloadedPart> parts;
  for (const Piece& piece : layout.pieces(ranges)) {
    parts.push_back({piece, 0, piece.numel});
    if (!in_blocks) continue;
    const std::int64_t numel = layout.tensors()[piece.tensor].numel;
    const std::int64_t last = piece.tensor_begin + piece.numel;
    const std::int64_t end = last == numel ? last : last / state_block_numel * state_block_numel;
    parts.back().begin =
        std::min(whole_blocks(piece.tensor_begin) - piece.tensor_begin, piece.numel);
    parts.back().end = std::max(end - piece.tensor_begin, parts.back().begin);
  }
  return parts;
}

/// The part of each piece that is offloaded.
void take(std::vector<OffloadedPart>& parts, const Offload& offload, const ParamGroups& groups,
          bool in_blocks) {
  std::int64_t all = 0;
  for (const OffloadedPart& part : parts) all += part.piece.numel;
  const double wanted = offload.fraction * static_cast<double>(all);
  if (offload.order == OffloadOrder::flat) {
    auto left = static_cast<std::int64_t>(wanted);
    for (OffloadedPart& part : parts) {
      part.taken = std::clamp(left, part.begin, part.end) - part.begin;
      if (in_blocks && part.taken < part.end - part.begin)
        part.taken = part.taken / state_block_numel * state_block_numel;
      left -= std::min(left, part.piece.numel);
    }
    return;
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [&](std::size_t i) {
    return std::pair(groups.of(parts[i].piece.tensor), parts[i].piece.tensor);
  };
  std::ranges::stable_sort(order, {}, group);
  std::int64_t before = 0, so_far = 0;  // before the tensor, and with its pieces
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (n == 0 || group(order[n]) != group(order[n - 1])) before = so_far;
    if (static_cast<double>(before) >= wanted) break;
    OffloadedPart& part = parts[order[n]];
    part.taken = part.end - part.begin;
    so_far += part.piece.numel;
  }
}

}  // namespace

OffloadShape offload_shape(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                           const Offload& offload, const ParamGroups& groups, bool in_blocks) {
  OffloadShape shape;
  shape.setting = offload;
  if (!offload.on()) return shape;
  std::vector<OffloadedPart> parts = offloadable_parts(layout, ranges, in_blocks);
  take(parts, offload, groups, in_blocks);
  std::int64_t end = 0;
  for (const FlatRange& range : ranges) end += range.numel();
  GradPages pages(end);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OffloadedPart& part = parts[i];
    if (part.taken == 0) continue;
    // Padding goes with the element before it, that in front of the first one with the first, if no
    // block begins there.
    const std::int64_t begin = i == 0 && !in_blocks ? 0 : part.local_begin();
    const std::int64_t next = i + 1 < parts.size() ? parts[i + 1].piece.local_begin : end;
    const bool whole = part.begin + part.taken == part.piece.numel;
    const std::int64_t last = whole ? next : part.local_begin() + part.taken;
    shape.elements += part.taken;
    shape.moved += last - begin;
    shape.numel += last - begin;
    if (in_blocks) {
      shape.blocks += num_state_blocks(part.taken);
      shape.numel = whole_blocks(shape.numel);
    }
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
  const auto slots = [&](std::int64_t most) {
    return std::min(overlap ? most : 1, chunks_of(shape));
  };
  std::int64_t bytes = shape.offload.setting.place == OffloadPlace::host
                           ? state_bytes(shape, shape.offload.numel)
                           : state_bytes(shape, first_chunk(shape));
  const std::int64_t grad = shape.offload.setting.grads ? 0 : 4;  // the host reads it in place
  if (shape.space == Space::device)
    bytes += slots(2) * (grad + code_bytes(shape)) * first_chunk(shape);
  if (!grads_in_file(shape)) bytes += 4 * shape.offload.grads;
  return bytes +
         4 * (shape.scale_blocks + shape.column_blocks);  // the amax of the offloaded parameters
}

std::int64_t offloaded_file_bytes(const PredictedStep& shape) {
  if (shape.offload.setting.place != OffloadPlace::file) return 0;
  // Buffers of a part end with a line, and where there are scales with a block.
  const std::int64_t unit = file_unit(shape);
  const std::int64_t part_numel =
      (first_chunk(shape) + file_parts * unit - 1) / (file_parts * unit) * unit;
  const std::int64_t part =
      (header_bytes + state_bytes(shape, part_numel) + file_line - 1) / file_line * file_line;
  const std::int64_t grads = grads_in_file(shape) ? 4 * shape.offload.grads : 0;
  return grads + chunks_of(shape) * file_parts * part;
}

OffloadTraffic offload_traffic(const PredictedStep& shape) {
  OffloadTraffic traffic;
  if (shape.space == Space::device) {
    traffic.grads_down = 4 * shape.offload.moved;
    traffic.params_up = code_bytes(shape) * shape.offload.elements;
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
