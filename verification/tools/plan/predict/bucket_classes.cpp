#include "verification/tools/plan/predict/bucket_classes.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace zeroproof {
namespace {

/// Joins adjacent entries of one length.
class Joined {
 public:
  Joined(std::vector<BucketShape>& out, bool by_unit) : out_(out), by_unit_(by_unit) {}

  void add(const BucketShape& bucket) {
    const bool parts = bucket.tp_replicated > 0;
    const bool leading = !parts && of_[1].count == 0;
    if (by_unit_ && bucket.owners == 1 && last_had_parts_ != parts && any_) close();
    if (!any_) begin_ = bucket.range.begin;
    BucketShape& entry = of_[leading ? 0 : parts ? 1 : 2];
    const BucketShape before = entry;
    entry = bucket;
    entry.count += before.count;
    entry.tp_replicated = std::max(entry.tp_replicated, before.tp_replicated);
    entry.tp_replicated_sum += before.tp_replicated_sum;
    any_ = true;
    last_had_parts_ = parts;
  }

  void close() {
    for (BucketShape& entry : of_) {
      if (entry.count == 0) continue;
      entry.range = {begin_, begin_ + entry.range.numel()};
      begin_ = entry.all().end;
      out_.push_back(entry);
    }
    of_ = none;
    any_ = false;
  }

 private:
  static constexpr BucketShape empty = {.range = {}, .count = 0};
  static constexpr std::array<BucketShape, 3> none = {empty, empty, empty};

  std::vector<BucketShape>& out_;
  const bool by_unit_;
  std::array<BucketShape, 3> of_ = none;  // in front of the first with TP parts, with them, without
  std::int64_t begin_ = 0;
  bool any_ = false;
  bool last_had_parts_ = false;
};

}  // namespace

void cut_buckets(PredictedStep& shape, const std::vector<std::int64_t>& places) {
  std::vector<BucketShape> cut;
  cut.reserve(shape.buckets.size() + 2 * places.size());
  auto place = places.begin();
  for (BucketShape rest : shape.buckets) {
    const std::int64_t numel = rest.range.numel();
    const auto split_off = [&](std::int64_t count) {
      if (count == 0) return;
      cut.push_back(rest);
      cut.back().count = count;
      rest.count -= count;
      rest.range = {rest.range.begin + count * numel, rest.range.end + count * numel};
    };
    while (place != places.end() && *place <= rest.range.begin) ++place;
    for (; place != places.end() && *place < rest.all().end; ++place) {
      split_off((*place - rest.range.begin) / numel);
      if (*place > rest.range.begin) split_off(1);
    }
    split_off(rest.count);
  }
  shape.buckets = std::move(cut);
}

void cut_at_units(PredictedStep& shape) {
  if (shape.stage < 2) return;
  std::vector<std::int64_t> places;
  for (const GatherShape& unit : shape.units) {
    places.push_back(unit.range.begin);
    places.push_back(unit.range.end);
  }
  cut_buckets(shape, places);
}

void join_buckets(PredictedStep& shape) {
  std::vector<BucketShape> out;
  out.reserve(shape.buckets.size());
  const bool by_unit = shape.stage >= 2;
  Joined joined(out, by_unit);
  std::int64_t numel = 0;
  auto unit = shape.units.begin();
  for (const BucketShape& bucket : shape.buckets) {
    bool inside = true;  // of one unit, and of that of the buckets before
    while (by_unit && unit != shape.units.end() && unit->range.end <= bucket.range.begin) {
      ++unit;
      inside = false;
    }
    const bool alone = by_unit && unit != shape.units.end() && unit->range.end < bucket.all().end;
    if (!inside || alone || bucket.range.numel() != numel) joined.close();
    joined.add(bucket);
    if (alone) joined.close();
    numel = bucket.range.numel();
  }
  joined.close();
  shape.buckets = std::move(out);
}

}  // namespace zeroproof
