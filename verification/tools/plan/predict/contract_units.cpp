#include "verification/tools/plan/predict/contract_units.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "verification/tools/plan/predict/bucket_classes.hpp"

namespace zeroproof {
namespace {

/// A bucket in chunks of layout_alignment elements, and their holders: all ranks, or one for every
/// chunk if there are fewer chunks than ranks. Holders are counted from 0, in the order of their
/// chunks.
struct ChunkedBucket {
  std::int64_t begin = 0;  ///< in elements
  std::int64_t chunks = 0;
  std::int64_t world = 1;

  std::int64_t holders() const { return std::min(chunks, world); }
  /// The rank r with floor(chunks r / world) <= chunk < floor(chunks (r + 1) / world).
  std::int64_t rank_at(std::int64_t chunk) const {
    return ((chunk + 1) * world + chunks - 1) / chunks - 1;
  }
  std::int64_t holder_at(std::int64_t chunk) const {
    return chunks < world ? chunk : rank_at(chunk);
  }
  std::int64_t first_chunk(std::int64_t holder) const {
    return chunks < world ? holder : chunks * holder / world;
  }
  std::int64_t element(std::int64_t chunk) const { return begin + chunk * layout_alignment; }
};

/// The part of a unit in one bucket.
struct Part {
  ChunkedBucket bucket;
  std::int64_t begin = 0, end = 0;  ///< chunks of the bucket
  std::int64_t first = 0,
               last = -1;  ///< holders of these chunks; later, those that have no other part

  bool whole() const { return begin == 0 && end == bucket.chunks; }
  std::int64_t chunk_after(std::int64_t holder) const {
    return std::min(end, bucket.first_chunk(holder + 1));
  }
  std::int64_t chunk_of(std::int64_t holder) const {
    return std::max(begin, bucket.first_chunk(holder));
  }
};

/// Parts of a unit, in order: in the first bucket, in the buckets it covers (at most two of them,
/// which determine the counts of all), and in the last.
struct Parts {
  std::vector<Part> same;  ///< of buckets as long as the first one
  std::vector<Part> tail;  ///< of a shorter bucket at the end of the layout: one or none
};

class UnitCounter {
 public:
  UnitCounter(const FlatLayout& layout, const PredictedStep& shape, std::int64_t bucket_numel)
      : layout_(layout), shape_(shape), bucket_numel_(bucket_numel), before_{0} {
    for (const TensorSlot& slot : layout.tensors()) before_.push_back(before_.back() + slot.numel);
  }

  GatherShape count(const FlatRange& unit) {
    if (elements(unit) == 0) return {.range = unit};
    find_breaks(unit);
    const ChunkedBucket first = bucket_at(unit.begin);
    if (first.holders() ==
        1) {  // and of the buckets behind it: one rank has everything, in one piece but for padding
      const std::int64_t all = elements(unit);
      GatherShape shape{.range = unit, .owned = owned(unit), .all = all, .owners = 1};
      if (!breaks_.empty()) shape.split.add(all);
      return shape;
    }
    Parts parts = parts_of(unit);
    const std::vector<Part> same = parts.same;
    std::int64_t owners = 0;
    for (const Part& part : parts.same) owners += part.last - part.first + 1;
    owners = std::min(owners, first.holders());
    leave_single(parts.same);
    std::int64_t single = 0;  // elements of ranks that have one stretch
    for (const Part& part : parts.same) single += elements_of_unbroken(part);
    for (const Part& part : parts.tail) add_tail(part, same, owners, single);
    return {unit, owned(unit), elements(unit), split(unit, same, parts.tail, single), owners};
  }

 private:
  std::int64_t elements_before(std::int64_t place) const {
    const auto after =
        std::upper_bound(layout_.tensors().begin(), layout_.tensors().end(), place,
                         [](std::int64_t at, const TensorSlot& slot) { return at < slot.begin; });
    if (after == layout_.tensors().begin()) return 0;
    const auto slot = after - 1;
    return before_[slot - layout_.tensors().begin()] + std::min(place - slot->begin, slot->numel);
  }
  /// Elements of tensors, without the padding.
  std::int64_t elements(const FlatRange& range) const {
    return elements_before(range.end) - elements_before(range.begin);
  }
  std::int64_t elements(const Part& part, std::int64_t chunk, std::int64_t end) const {
    return chunk < end ? elements({part.bucket.element(chunk), part.bucket.element(end)}) : 0;
  }

  ChunkedBucket bucket_at(std::int64_t element) const {
    const std::int64_t begin = element / bucket_numel_ * bucket_numel_;
    const std::int64_t end = std::min(begin + bucket_numel_, layout_.padded_numel());
    return {begin, (end - begin) / layout_alignment, shape_.world_size};
  }

  Part part_of(const FlatRange& unit, const ChunkedBucket& bucket) const {
    Part part{bucket, std::max<std::int64_t>(0, unit.begin - bucket.begin) / layout_alignment,
              std::min(bucket.chunks, (unit.end - bucket.begin) / layout_alignment)};
    part.first = bucket.holder_at(part.begin);
    part.last = bucket.holder_at(part.end - 1);
    return part;
  }

  Parts parts_of(const FlatRange& unit) const {
    Parts parts;
    int covered = 0;
    for (std::int64_t at = unit.begin; at < unit.end;) {
      const Part part = part_of(unit, bucket_at(at));
      const bool shorter =
          !parts.same.empty() && part.bucket.chunks != parts.same.front().bucket.chunks;
      (shorter ? parts.tail : parts.same).push_back(part);
      covered += part.whole() ? 1 : 0;
      at = part.bucket.element(part.end);
      if (covered == 2 && part.whole()) at = std::max(at, unit.end / bucket_numel_ * bucket_numel_);
    }
    return parts;
  }

  /// Leaves to every part the holders that have no other: parts begin with the first holder or end
  /// with the last, or are the only one.
  static void leave_single(std::vector<Part>& parts) {
    const std::vector<Part> all = parts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Part& part = parts[i];
      for (std::size_t other = 0; other < all.size(); ++other) {
        if (other == i || part.first > part.last) continue;
        const bool from_start = all[other].first <= part.first;
        if (all[other].last >= part.last)
          part.last = std::min(part.last, from_start ? part.first - 1 : all[other].first - 1);
        if (from_start) part.first = std::max(part.first, all[other].last + 1);
      }
    }
  }

  std::vector<TensorSlot>::const_iterator first_tensor(const FlatRange& unit) const {
    return std::ranges::lower_bound(layout_.tensors(), unit.begin, {}, &TensorSlot::begin);
  }

  /// Padding between two tensors of a unit: no stretch continues across it.
  void find_breaks(const FlatRange& unit) {
    breaks_.clear();
    const std::vector<TensorSlot>& tensors = layout_.tensors();
    auto slot = first_tensor(unit);
    std::int64_t end = unit.begin;  // of the last tensor that is not empty
    for (; slot != tensors.end() && slot->begin < unit.end; ++slot) {
      if (slot->numel == 0) continue;
      if (end != slot->begin) breaks_.push_back(slot->begin);
      end = slot->begin + slot->numel;
    }
  }

  /// True if a holder has its elements of a part in more than one stretch.
  bool is_broken(const Part& part, std::int64_t holder) const {
    const std::int64_t begin = part.bucket.element(part.chunk_of(holder));
    const auto next = std::upper_bound(breaks_.begin(), breaks_.end(), begin);
    return next != breaks_.end() && *next < part.bucket.element(part.chunk_after(holder));
  }

  std::int64_t elements_of(const Part& part, std::int64_t holder) const {
    return elements(part, part.chunk_of(holder), part.chunk_after(holder));
  }

  /// Of the holders that are left to a part.
  std::int64_t elements_of_unbroken(const Part& part) const {
    if (part.first > part.last) return 0;
    std::int64_t sum = elements(part, part.chunk_of(part.first), part.chunk_after(part.last));
    std::int64_t seen = -1;
    auto at = std::upper_bound(breaks_.begin(), breaks_.end(), part.bucket.element(part.begin));
    for (; at != breaks_.end() && *at < part.bucket.element(part.end); ++at) {
      const std::int64_t holder =
          part.bucket.holder_at((*at - part.bucket.begin) / layout_alignment);
      if (holder == seen || holder < part.first || holder > part.last) continue;
      if (!is_broken(part, holder)) continue;
      seen = holder;
      sum -= elements_of(part, holder);
    }
    return sum;
  }

  /// The part of the shorter bucket at the end of the layout, which other ranks hold. At most one
  /// unit has one, so it is counted rank by rank.
  void add_tail(const Part& tail, const std::vector<Part>& before, std::int64_t& owners,
                std::int64_t& single) const {
    for (std::int64_t holder = tail.first; holder <= tail.last; ++holder) {
      const std::int64_t rank = tail.bucket.rank_at(tail.bucket.first_chunk(holder));
      const bool broken = is_broken(tail, holder);
      const Part* other = nullptr;
      std::int64_t other_holder = 0;
      int others = 0;
      for (const Part& part : before) {
        const FlatRange slice = contract_slice({0, part.bucket.chunks * layout_alignment},
                                               shape_.world_size, static_cast<int>(rank));
        if (slice.numel() == 0) continue;
        const std::int64_t at = part.bucket.holder_at(slice.begin / layout_alignment);
        if (at < part.first || at > part.last) continue;
        ++others;
        other = &part;
        other_holder = at;
      }
      if (others == 0) ++owners;
      if (others == 0 && !broken) single += elements_of(tail, holder);
      if (others != 1 || is_broken(*other, other_holder)) continue;
      // The last rank's slices of the last two buckets are neighbours if it holds all of the last
      // one.
      const bool goes_on = tail.bucket.holders() == 1 &&
                           !std::binary_search(breaks_.begin(), breaks_.end(), tail.bucket.begin);
      single += goes_on ? elements_of(tail, holder) : -elements_of(*other, other_holder);
    }
  }

  /// The parts of ranks that have more than one stretch: all elements but `single`. Only ranks at
  /// the end of a tensor have an odd number of them.
  PartLengths split(const FlatRange& unit, const std::vector<Part>& same,
                    const std::vector<Part>& tail, std::int64_t single) const {
    PartLengths lengths{.numel = elements(unit) - single};
    std::map<std::int64_t, std::int64_t> elements_of_rank;  // at the ends of tensors
    for (auto slot = first_tensor(unit); slot != layout_.tensors().end() && slot->begin < unit.end;
         ++slot) {
      if (slot->numel == 0) continue;
      const std::int64_t last = slot->begin + slot->numel - 1;
      const ChunkedBucket bucket = bucket_at(last);
      elements_of_rank[bucket.rank_at((last - bucket.begin) / layout_alignment)] += slot->numel;
    }
    std::vector<Part> parts = same;
    parts.insert(parts.end(), tail.begin(), tail.end());
    for (const auto& [rank, numel] : elements_of_rank) {
      if (numel % 16 != 0 && stretches(static_cast<int>(rank), parts) > 1)
        ++lengths.by_remainder[static_cast<std::size_t>(numel % 16)];
    }
    return lengths;
  }

  /// Of one rank, in these parts.
  std::int64_t stretches(int rank, const std::vector<Part>& parts) const {
    std::int64_t count = 0, end = -1;
    for (const Part& part : parts) {
      const ChunkedBucket& bucket = part.bucket;
      FlatRange slice =
          contract_slice({bucket.begin, bucket.element(bucket.chunks)}, shape_.world_size, rank);
      slice = {std::max(slice.begin, bucket.element(part.begin)),
               std::min(slice.end, bucket.element(part.end))};
      if (slice.begin >= slice.end) continue;
      const auto breaks_before = [&](std::int64_t place) {
        return std::lower_bound(breaks_.begin(), breaks_.end(), place) - breaks_.begin();
      };
      const bool goes_on =
          slice.begin == end && breaks_before(slice.begin + 1) == breaks_before(slice.begin);
      count += (goes_on ? 0 : 1) + breaks_before(slice.end) - breaks_before(slice.begin + 1);
      end = slice.end;
    }
    return count;
  }

  /// Of this rank: by its slices up to where a tensor begins and ends.
  std::int64_t owned(const FlatRange& unit) const {
    const std::vector<TensorSlot>& tensors = layout_.tensors();
    auto slot = first_tensor(unit);
    std::int64_t sum = 0;
    for (; slot != tensors.end() && slot->begin < unit.end; ++slot)
      sum += owned_before(slot->begin + slot->numel) - owned_before(slot->begin);
    return sum;
  }
  std::int64_t owned_before(std::int64_t place) const {
    const std::int64_t begin = place / bucket_numel_ * bucket_numel_;
    const std::int64_t of_bucket =
        contract_slice({0, bucket_numel_}, shape_.world_size, shape_.rank).numel();
    const FlatRange here{begin, std::min(begin + bucket_numel_, layout_.padded_numel())};
    const FlatRange slice = contract_slice(here, shape_.world_size, shape_.rank);
    return begin / bucket_numel_ * of_bucket +
           std::clamp<std::int64_t>(place - slice.begin, 0, slice.numel());
  }

  const FlatLayout& layout_;
  const PredictedStep& shape_;
  const std::int64_t bucket_numel_;
  std::vector<std::int64_t> before_;  // [tensors + 1] elements of the tensors before
  std::vector<std::int64_t> breaks_;  // of the unit, in increasing order
};

}  // namespace

void set_contract_units(PredictedStep& shape, const FlatLayout& layout,
                        const std::vector<FlatRange>& units, std::int64_t bucket_numel) {
  shape.visits.resize(units.size());
  std::iota(shape.visits.begin(), shape.visits.end(), 0);
  shape.units.assign(units.size(), {});
  shape.stays.assign(units.size(), false);
  shape.persistent = {};
  UnitCounter counter(layout, shape, bucket_numel);
  for (std::size_t u = 0; u < units.size(); ++u) {
    shape.units[u].range = units[u];
    if (shape.stage == 3)
      shape.units[u] = counter.count(units[u]);  // other stages do not gather by units
  }
  cut_at_units(shape);
}

}  // namespace zeroproof
