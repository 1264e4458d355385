#include "cuda/optimizer/overlap/step_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/optimizer/overlap/bucket_parts.hpp"
#include "cuda/optimizer/overlap/plan_events.hpp"
#include "cuda/optimizer/overlap/ready_count.hpp"

namespace zeroproof::cuda {
namespace {

using Parts = std::vector<std::vector<BucketPart>>;

std::vector<int> visits_of_units(const LayerSchedule& shape) {
  std::vector<int> counts(shape.units.size(), 0);
  for (const int unit : shape.visits) ++counts[unit];
  return counts;
}

std::vector<std::vector<int>> units_of_buckets(const Parts& parts) {
  std::vector<std::vector<int>> units(parts.size());
  for (std::size_t b = 0; b < parts.size(); ++b) {
    for (const BucketPart& part : parts[b]) units[b].push_back(part.unit);
  }
  return units;
}

void check(const LayerSchedule& shape) {
  ZP_CHECK(shape.stage == 2 || shape.stage == 3, ErrorCode::invalid_argument,
           "a plan needs stage 2 or 3, not " + std::to_string(shape.stage),
           "gradients are reduced while layers compute in stages 2 and 3 only",
           "reduce whole gradients in stages 0 and 1");
  ZP_CHECK(shape.persistent.empty() || shape.persistent.size() == shape.units.size(),
           ErrorCode::invalid_argument,
           std::to_string(shape.persistent.size()) + " flags for persistent units of " +
               std::to_string(shape.units.size()),
           "each unit needs one", "pass one flag per unit, or none at all");
  for (const int unit : shape.visits) {
    ZP_CHECK(unit >= 0 && static_cast<std::size_t>(unit) < shape.units.size(),
             ErrorCode::invalid_argument, "a model visits unit " + std::to_string(unit),
             "it has " + std::to_string(shape.units.size()) + " units", "count units from 0");
  }
}

class PlanBuilder {
 public:
  explicit PlanBuilder(const LayerSchedule& shape)
      : shape_(shape),
        parts_(bucket_parts(shape.units, shape.buckets)),
        unit_buckets_(buckets_of_units(parts_, shape.units.size())),
        ready_(visits_of_units(shape), units_of_buckets(parts_)),
        forward_(shape.visits.size()),
        sequence_(shape.visits),
        has_gradient_(shape.units.size(), false),
        has_buffer_(shape.buckets.size(), false) {
    sequence_.insert(sequence_.end(), shape.visits.rbegin(), shape.visits.rend());
  }

  StepPlan build() {
    for (std::size_t u = 0; u < shape_.units.size(); ++u) {
      if (!gathered(static_cast<int>(u))) plan_.resident.push_back(param(static_cast<int>(u)));
    }
    for (std::size_t i = 0; i < sequence_.size(); ++i) {
      if (i == 0 || sequence_[i - 1] != sequence_[i]) open(i);
      seal();
      if (i >= forward_) {
        backward(i);
      } else {
        visit(OpKind::forward, sequence_[i]);
      }
      if (i + 1 == sequence_.size() || sequence_[i + 1] != sequence_[i]) release(sequence_[i]);
    }
    seal();
    free_until(sequence_.size() + 2);
    place_events(plan_);
    return std::move(plan_);
  }

 private:
  struct Garbage {
    PlanBuffer buffer;
    std::size_t due = 0;  // the backward visit before which it is freed
  };

  static PlanBuffer param(int unit) { return {BufferKind::unit_param, unit}; }
  static PlanBuffer grad(int unit) { return {BufferKind::unit_grad, unit}; }
  static PlanBuffer bucket_grad(int bucket) { return {BufferKind::bucket_grad, bucket}; }

  bool gathered(int unit) const {
    return shape_.stage == 3 && (shape_.persistent.empty() || !shape_.persistent[unit]);
  }
  bool assembled(int bucket) const { return parts_[bucket].size() > 1; }

  void add(OpKind kind, PlanBuffer target, std::vector<PlanBuffer> reads,
           std::vector<PlanBuffer> writes) {
    const bool moves = kind == OpKind::gather || kind == OpKind::reduce;
    const PlanStream stream = moves && shape_.overlap ? PlanStream::comm : PlanStream::compute;
    plan_.ops.push_back({kind, stream, target, std::move(reads), std::move(writes), {}, -1});
  }

  /// The first of several neighbouring visits of a unit: it needs its parameters, and the gather of
  /// the next unit's can start.
  void open(std::size_t i) {
    if (i == 0 || !shape_.overlap) fetch(sequence_[i]);
    if (!shape_.overlap) return;
    const auto begin = sequence_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto next =
        std::find_if(begin, sequence_.end(), [&](int unit) { return unit != *begin; });
    if (next != sequence_.end()) fetch(*next);
  }

  void fetch(int unit) {
    if (!gathered(unit)) return;
    add(OpKind::allocate, param(unit), {}, {param(unit)});
    add(OpKind::gather, param(unit), {}, {param(unit)});
  }

  void release(int unit) {
    if (gathered(unit)) add(OpKind::release, param(unit), {}, {param(unit)});
  }

  void visit(OpKind kind, int unit) {
    if (gathered(unit)) add(OpKind::check_version, param(unit), {param(unit)}, {});
    if (kind == OpKind::forward) return add(kind, param(unit), {param(unit)}, {});
    add(kind, grad(unit), {param(unit)}, {grad(unit)});
  }

  void backward(std::size_t i) {
    const int unit = sequence_[i];
    const auto u = static_cast<std::size_t>(unit);
    free_until(i);
    if (!has_gradient_[u]) add(OpKind::allocate, grad(unit), {}, {grad(unit)});
    has_gradient_[u] = true;
    visit(OpKind::backward, unit);
    completed_ = ready_.report(unit);
    if (completed_.unit) sealing_ = {unit, i};
    if (!shape_.overlap) seal();
  }

  /// The gradient completed by the last backward visit goes to the buckets, and complete buckets
  /// are reduced.
  void seal() {
    if (!sealing_) return;
    const auto [unit, visited] = *std::exchange(sealing_, std::nullopt);
    const std::size_t due = shape_.overlap ? visited + 2 : visited;
    std::vector<PlanBuffer> writes = {
        grad(unit)};  // later readers have to come after this operation
    bool is_viewed = false;
    for (const int bucket : unit_buckets_[unit]) {
      const auto b = static_cast<std::size_t>(bucket);
      is_viewed = is_viewed || !assembled(bucket);
      if (!assembled(bucket)) continue;
      if (!has_buffer_[b]) add(OpKind::allocate, bucket_grad(bucket), {}, {bucket_grad(bucket)});
      has_buffer_[b] = true;
      writes.push_back(bucket_grad(bucket));
    }
    add(OpKind::ready, grad(unit), {grad(unit)}, std::move(writes));
    for (const int bucket : completed_.buckets) {
      add(OpKind::reduce, bucket_grad(bucket),
          {assembled(bucket) ? bucket_grad(bucket) : grad(unit)}, {});
      if (assembled(bucket)) garbage_.push_back({bucket_grad(bucket), due});
    }
    if (is_viewed) {
      garbage_.push_back({grad(unit), due});
    } else {
      add(OpKind::free, grad(unit), {}, {grad(unit)});
    }
    if (!shape_.overlap) free_until(visited);
  }

  void free_until(std::size_t visited) {
    std::size_t kept = 0;
    for (const Garbage& garbage : garbage_) {
      if (garbage.due <= visited) {
        add(OpKind::free, garbage.buffer, {}, {garbage.buffer});
      } else {
        garbage_[kept++] = garbage;
      }
    }
    garbage_.resize(kept);
  }

  const LayerSchedule& shape_;
  const Parts parts_;
  const std::vector<std::vector<int>> unit_buckets_;  // [units]
  ReadyCount ready_;
  std::size_t forward_;        // visits of the forward pass
  std::vector<int> sequence_;  // all visits, forward and backward
  std::vector<bool> has_gradient_, has_buffer_;
  std::optional<std::pair<int, std::size_t>> sealing_;  // unit, its last visit
  ReadyCount::Completed completed_;
  std::vector<Garbage> garbage_;
  StepPlan plan_;
};

}  // namespace

StepPlan make_plan(const LayerSchedule& shape) {
  check(shape);
  return PlanBuilder(shape).build();
}

std::string_view name(OpKind kind) {
  constexpr std::array<std::string_view, 9> names = {"allocate", "gather",  "check_version",
                                                     "forward",  "release", "backward",
                                                     "ready",    "reduce",  "free"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(PlanStream stream) {
  return stream == PlanStream::compute ? "compute" : "comm";
}

std::string name(const PlanBuffer& buffer) {
  constexpr std::array<std::string_view, 3> names = {"parameters of unit ", "gradient of unit ",
                                                     "gradient of bucket "};
  return std::string(names[static_cast<std::size_t>(buffer.kind)]) + std::to_string(buffer.index);
}

std::string name(const PlanOp& op) {
  const bool is_memory =
      op.kind == OpKind::allocate || op.kind == OpKind::release || op.kind == OpKind::free;
  const bool is_bucket = op.target.kind == BufferKind::bucket_grad;
  return std::string(name(op.kind)) + " of " +
         (is_memory ? name(op.target)
                    : (is_bucket ? "bucket " : "unit ") + std::to_string(op.target.index));
}

}  // namespace zeroproof::cuda
