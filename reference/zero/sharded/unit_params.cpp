// Parameters of a unit while its layer computes. W = 3 ranks, owners of the parts a, b and c; the
// unit is part of a and b:
//
//                      rank 0    rank 1    rank 2
//   stages 0, 1, 2     a b c     a b c     a b c       no communication
//   stage 3, before    a - -     - b -     - - c       and persistent tensors, whole on every rank
//            gather    ranks 0 and 1 send their parts of the unit; persistent tensors are not sent
//            then      a u -     u b -     u u c       u: gathered elements, NaN after release
//
// plain_stage3.cpp does the same without persistent tensors, grids and layouts.

#include "reference/zero/sharded/unit_params.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/zero/sharded/messages.hpp"

namespace zeroproof::reference {

TensorView GatheredUnit::open(std::uint64_t version) {
  gathered_ = true;
  version_ = version;
  return buffer_.view();
}

TensorView GatheredUnit::read(std::uint64_t version) const {
  ZP_CHECK(gathered_, ErrorCode::internal, "a unit is read before it is gathered",
           "its parameters are not on this rank", "report this as a defect");
  ZP_CHECK(version_ == version, ErrorCode::internal,
           "a unit was gathered under version " + std::to_string(version_) +
               " of the parameters and is read under " + std::to_string(version),
           "its layer would compute with stale parameters", "report this as a defect");
  return buffer_.view();
}

void GatheredUnit::release() {
  buffer_.poison();
  gathered_ = false;
}

FlatRanges persistent_ranges(const OptimizerSetup& setup) {
  FlatRanges ranges;
  if (setup.stage != 3) return ranges;
  for (const TensorSlot& slot : setup.layout->tensors()) {
    if (slot.numel > 0 && slot.numel <= setup.persistent_numel) {
      ranges.push_back({slot.begin, slot.begin + slot.numel});
    }
  }
  return ranges;
}

UnitParams::UnitParams(const OptimizerSetup& setup, std::vector<FlatRange> units,
                       ParamSource source)
    : setup_(setup), units_(std::move(units)), source_(std::move(source)) {}

void UnitParams::gather(std::size_t unit) {
  if (setup_.stage != 3) return;
  const FlatRange& range = units_[unit];
  // The memory is not freed with the unit, so that a view used too late reads NaN.
  const auto [found, is_new] = gathered_.try_emplace(unit, range.numel(), setup_.param_dtype);
  const RangedView into{found->second.open(*source_.version), {range}};
  const FlatRanges here = intersect(source_.full.ranges, {range});
  unpack(pack(source_.full, here), here, into);
  gather_from_owners(setup_, source_.shard, without(range, here), into);
}

TensorView UnitParams::view(std::size_t unit) const {
  if (setup_.stage == 3) return gathered_.at(unit).read(*source_.version);
  const TensorView& full = source_.full.view;
  std::byte* const begin =
      static_cast<std::byte*>(full.data) + units_[unit].begin * num_bytes(full.dtype);
  return {begin, full.dtype, units_[unit].numel()};
}

void UnitParams::release(std::size_t unit) {
  if (setup_.stage == 3) gathered_.at(unit).release();
}

}  // namespace zeroproof::reference
