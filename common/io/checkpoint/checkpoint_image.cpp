#include "common/io/checkpoint/checkpoint_image.hpp"

#include <algorithm>

#include "common/base/canonical_copy.hpp"
#include "common/base/digest.hpp"
#include "common/base/parallel_for.hpp"
#include "common/io/checkpoint/rank_file_plan.hpp"

namespace zeroproof {
namespace {

/// The elements of one piece, at their position in the file.
struct Stretch {
  std::size_t begin = 0;  ///< byte of the file
  Span<const float> values;
  std::size_t end() const { return begin + values.size_bytes(); }
};

/// Copies the part of them in bytes [begin, begin + bytes.size()).
void fill(const std::vector<Stretch>& stretches, std::size_t begin, Span<std::byte> bytes) {
  const std::size_t end = begin + bytes.size();
  auto at = std::partition_point(stretches.begin(), stretches.end(),
                                 [&](const Stretch& one) { return one.end() <= begin; });
  for (; at != stretches.end() && at->begin < end; ++at) {
    const std::size_t from = std::max(begin, at->begin), to = std::min(end, at->end());
    copy_canonical(
        at->values.subspan((from - at->begin) / sizeof(float), (to - from) / sizeof(float)),
        bytes.subspan(from - begin));
  }
}

}  // namespace

void CheckpointImage::make(const CheckpointManifest& names,
                           const std::vector<CheckpointPiece>& pieces,
                           const std::vector<Span<const float>>& values, int num_threads) {
  const RankFilePlan plan = plan_rank_file(names, pieces);
  std::vector<Stretch> stretches;
  std::size_t end = plan.head.size();
  for (const std::size_t index : plan.order) {
    stretches.push_back({end, values[index]});
    end = stretches.back().end();
  }
  num_bytes_ = 0;
  buffer_.reserve(end);
  num_bytes_ = end;
  const Span<std::byte> file = buffer_.bytes().first(end);
  constexpr auto most = static_cast<std::size_t>(chunk_bytes);
  chunks_.assign((end + most - 1) / most, {});
  parallel_for(num_threads, static_cast<std::int64_t>(chunks_.size()), [&](std::int64_t index) {
    const std::size_t begin = static_cast<std::size_t>(index) * most;
    const Span<std::byte> chunk = file.subspan(begin, std::min(most, end - begin));
    if (begin < plan.head.size())
      std::ranges::copy(std::as_bytes(Span<const char>(plan.head))
                            .subspan(begin)
                            .first(std::min(chunk.size(), plan.head.size() - begin)),
                        chunk.begin());
    fill(stretches, begin, chunk);
    chunks_[index] = raw_digest(chunk.data(), static_cast<std::int64_t>(chunk.size()));
  });
}

}  // namespace zeroproof
