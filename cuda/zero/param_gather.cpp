#include "cuda/zero/param_gather.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/zero/packed_exchange.hpp"

namespace zeroproof::cuda {
namespace {

Span<std::byte> bytes_at(void* data, std::int64_t begin, std::int64_t count) {
  return {static_cast<std::byte*>(data) + begin, static_cast<std::size_t>(count)};
}

/// Whether every rank's shard is the whole model in its own order, and no unit of it comes and goes.
bool holds_all(const OptimizerSetup& setup) {
  if (setup.stage == 0 || setup.stage == 3) return setup.stage == 0;
  if (setup.comm->world_size() > 1) return false;
  const std::vector<FlatRange> shard = setup.shards->shard(setup.comm->rank());
  std::int64_t end = 0;
  for (const FlatRange& range : shard) {
    if (range.begin != end) return false;
    end = range.end;
  }
  return end == setup.layout->padded_numel();
}

}  // namespace

ParamGather::ParamGather(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
                         GradMemory& memory, const TensorView& param_shard)
    : setup_(setup),
      plans_(plans),
      memory_(memory),
      param_shard_(param_shard),
      in_shard_(holds_all(setup)),
      width_(num_bytes(setup.param_dtype)) {
  if (setup.stage < 3) {
    full_ranges_ = {{0, setup.layout->padded_numel()}};
  } else {
    find_persistent();
  }
  std::int64_t numel = 0;
  for (const FlatRange& range : full_ranges_) numel += range.numel();
  full_ = CountedBuffer(memory.ledger(), MemoryClass::param_full, in_shard_ ? 0 : numel, setup.param_dtype);
  if (setup.stage == 3) persistent_ = plan_persistent();
}

void ParamGather::find_persistent() {
  std::int64_t begin = 0;
  for (const TensorSlot& slot : setup_.layout->tensors()) {
    const bool whole = slot.numel <= setup_.persistent_numel;
    persistent_begin_.push_back(whole ? begin : -1);
    if (!whole || slot.numel == 0) continue;
    full_ranges_.push_back({slot.begin, slot.begin + slot.numel});
    begin += slot.numel;
  }
  for (int rank = 0; rank < setup_.comm->world_size(); ++rank) {
    pieces_.push_back(setup_.layout->pieces(setup_.shards->shard(rank)));
  }
}

/// Adds a piece of a rank's shard; what follows the last run on both sides continues it.
void ParamGather::add(const Piece& piece, std::int64_t to, RankRuns& of_rank) const {
  std::vector<Run>& all = of_rank.runs;
  of_rank.numel += piece.numel;
  if (!all.empty() && all.back().from + all.back().numel == piece.local_begin &&
      all.back().to + all.back().numel == to) {
    all.back().numel += piece.numel;
  } else {
    all.push_back({piece.local_begin, to, piece.numel});
  }
}

ParamGather::Exchange ParamGather::plan_persistent() const {
  Exchange exchange(pieces_.size());
  for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
    for (const Piece& piece : pieces_[rank]) {
      if (!is_persistent(piece.tensor)) continue;
      const std::int64_t begin = persistent_begin_[static_cast<std::size_t>(piece.tensor)];
      add(piece, begin + piece.tensor_begin, exchange[rank]);
    }
  }
  return exchange;
}

ParamGather::Exchange ParamGather::plan_of(const FlatRange& unit) const {
  Exchange exchange(pieces_.size());
  for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
    const auto first = std::ranges::lower_bound(pieces_[rank], unit.begin, {}, &Piece::global_begin);
    for (auto piece = first; piece != pieces_[rank].end() && piece->global_begin < unit.end; ++piece) {
      if (!is_persistent(piece->tensor)) add(*piece, piece->global_begin - unit.begin, exchange[rank]);
    }
  }
  return exchange;
}

/// One all-gather: every rank's runs to their places in target.
void ParamGather::run(const Exchange& exchange, std::byte* target) {
  const auto span = [&](void* data, std::int64_t begin, std::int64_t numel) {
    return bytes_at(data, begin * width_, numel * width_);
  };
  std::int64_t total = 0;
  Stretches mine;
  std::vector<Stretches> places;
  for (const RankRuns& part : exchange) {
    Stretches& place = places.emplace_back();
    for (const Run& r : part.runs) place.push_back(span(target, r.to, r.numel));
    total += part.numel;
  }
  for (const Run& r : exchange[static_cast<std::size_t>(setup_.comm->rank())].runs) {
    mine.push_back(span(param_shard_.data, r.from, r.numel));
  }
  if (total == 0) return;
  if (exchange.size() == 1) {  // nobody to send to
    for (std::size_t i = 0; i < mine.size(); ++i) std::ranges::copy(mine[i], places[0][i].begin());
    return;
  }
  gather_packed(*setup_.comm, mine, places, memory_.in);
}

void ParamGather::gather(const FlatRange& unit, const TensorView& full) {
  ZP_CHECK(setup_.stage == 3 && full.numel == unit.numel() && full.dtype == setup_.param_dtype &&
               (full.data != nullptr || full.numel == 0),
           ErrorCode::invalid_argument,
           "a unit of " + std::to_string(unit.numel()) + " elements was asked for as " +
               std::to_string(full.numel) + " " + std::string(name(full.dtype)) + " in stage " +
               std::to_string(setup_.stage),
           "only stage 3 makes units, in the dtype of the parameters", "pass a view of the whole unit");
  auto* target = static_cast<std::byte*>(full.data);
  run(plan_of(unit), target);
  const auto* whole = static_cast<const std::byte*>(full_->data());
  const std::vector<TensorSlot>& tensors = setup_.layout->tensors();
  auto slot = std::ranges::lower_bound(tensors, unit.begin, {}, &TensorSlot::begin);
  for (; slot != tensors.end() && slot->begin < unit.end; ++slot) {
    const std::int64_t from = persistent_begin_[static_cast<std::size_t>(slot - tensors.begin())];
    if (from < 0 || slot->numel == 0) continue;
    std::memcpy(target + (slot->begin - unit.begin) * width_, whole + from * width_,
                static_cast<std::size_t>(slot->numel * width_));
  }
}

void ParamGather::gather_all() {
  if (setup_.stage == 3) return run(persistent_, static_cast<std::byte*>(full_->data()));
  if (!in_shard_) gather_buckets();
}

void ParamGather::gather_buckets() {
  for (const BucketPlan& plan : plans_) {
    std::vector<Stretches> places;
    for (const RankPart& part : plan.parts())
      append(places.emplace_back(), part, static_cast<std::byte*>(full_->data()), 0, width_);
    // This rank's part stands packed in its shard.
    gather_packed(*setup_.comm,
                  {bytes_at(param_shard_.data, plan.local_begin * width_, plan.own.numel * width_)}, places,
                  memory_.in);
  }
}

}  // namespace zeroproof::cuda
