#include "cuda/optimizer/params/param_store.hpp"

#include <cstring>
#include <utility>

#include "cuda/comm/exchange/bucket_plan.hpp"

namespace zeroproof::cuda {
namespace {

bool is_one_copy(const OptimizerSetup& setup, const SharedMemoryGroup* near) {
  return near != nullptr && near->any() && setup.windows == Windows::params &&
         (setup.stage == 1 || setup.stage == 2);
}

std::vector<SharedBuffers::Shapes> shapes_of(const OptimizerSetup& setup,
                                             const SharedMemoryGroup& near, bool one_copy) {
  std::vector<SharedBuffers::Shapes> shapes;
  for (const int rank : near.machines()[near.own_machine()]) {
    const std::int64_t whole = near.place(rank) == 0 ? setup.layout->padded_numel() : 0;
    shapes.push_back({{one_copy ? whole : setup.shards->shard_numel(rank), setup.param_dtype}});
  }
  return shapes;
}

}  // namespace

ParamStore::ParamStore(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges,
                       const SharedMemoryGroup* near, MemoryLedger& ledger)
    : ranges_(ranges), one_copy_(is_one_copy(setup, near)) {
  if (near == nullptr || !near->any() || setup.stage == 0) {
    shard_ =
        CountedBuffer(ledger, MemoryClass::param_shard, total_numel(ranges), setup.param_dtype);
    return;
  }
  shared_ = std::make_unique<SharedBuffers>(near->group(), shapes_of(setup, *near, one_copy_));
  shard_ = shared_->mine(0, ledger, one_copy_ ? MemoryClass::param_full : MemoryClass::param_shard);
  if (one_copy_) shown_ = GuardedBuffer(0, setup.param_dtype);
}

template <class Body>
void ParamStore::for_ranges(const Body& body) const {
  std::int64_t begin = 0;
  for (const FlatRange& range : ranges_) {
    body(part(copy(), range.begin, range.numel()), part(shown_.view(), begin, range.numel()));
    begin += range.numel();
  }
}

void ParamStore::show() {
  if (!one_copy_) return;
  if (shown_.numel() != total_numel(ranges_))
    shown_ = GuardedBuffer(total_numel(ranges_), copy().dtype);
  for_ranges([](const TensorView& in_copy, const TensorView& shown) {
    std::memcpy(shown.data, in_copy.data, static_cast<std::size_t>(shown.num_bytes()));
  });
}

void ParamStore::take_shown() {
  if (!one_copy_ || shown_.numel() == 0) return;
  for_ranges([](const TensorView& in_copy, const TensorView& shown) {
    std::memcpy(in_copy.data, shown.data, static_cast<std::size_t>(shown.num_bytes()));
  });
}

}  // namespace zeroproof::cuda
