#include "cuda/optimizer/params/param_gather.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {
namespace {

Span<std::byte> bytes_at(void* data, std::int64_t begin, std::int64_t count) {
  return {static_cast<std::byte*>(data) + begin, static_cast<std::size_t>(count)};
}

/// Whether every rank's shard is the whole model in its own order, and no unit is gathered and
/// released.
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
                         GradMemory& memory, ParamStore& params, const SharedMemoryGroup* near,
                         Communicator& comm)
    : setup_(setup),
      plans_(plans),
      memory_(memory),
      params_(params),
      shared_memory_group_(near != nullptr && near->any() ? near : nullptr),
      comm_(comm),
      in_shard_(holds_all(setup)),
      width_(num_bytes(setup.param_dtype)) {
  if (setup.stage < 3) {
    full_ranges_ = {{0, setup.layout->padded_numel()}};
  } else {
    find_persistent();
  }
  const std::int64_t numel = in_shard_ || params.one_copy() ? 0 : total_numel(full_ranges_);
  full_memory_ = registered_buffer(comm, numel, setup.param_dtype);
  full_ = counted_in(full_memory_.get(), memory.ledger(), MemoryClass::param_full, numel,
                     setup.param_dtype);
  if (setup.stage == 3) persistent_ = plan_persistent();
  if (setup.stage < 3 && params.reads_shards()) find_near_shards();
}

void ParamGather::find_near_shards() {
  for (const int rank : shared_memory_group_->machines()[shared_memory_group_->own_machine()]) {
    std::vector<Piece> runs;
    std::int64_t from = 0;
    for (const FlatRange& range : setup_.shards->shard(rank)) {
      runs.push_back({0, 0, range.begin, from, range.numel()});
      from += range.numel();
    }
    near_shards_.emplace_back(runs);
  }
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

/// Adds a piece of a rank's shard; a piece that follows the last run on both sides extends it.
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
      const std::int64_t begin = persistent_begin_[piece.tensor];
      add(piece, begin + piece.tensor_begin, exchange[rank]);
    }
  }
  return exchange;
}

ParamGather::Exchange ParamGather::plan_of(const FlatRange& unit) const {
  Exchange exchange(pieces_.size());
  for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
    const auto first =
        std::ranges::lower_bound(pieces_[rank], unit.begin, {}, &Piece::global_begin);
    for (auto piece = first; piece != pieces_[rank].end() && piece->global_begin < unit.end;
         ++piece) {
      if (!is_persistent(piece->tensor))
        add(*piece, piece->global_begin - unit.begin, exchange[rank]);
    }
  }
  return exchange;
}

/// One all-gather: copies every rank's runs to their offsets in target.
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
  for (const Run& r : exchange[setup_.comm->rank()].runs) {
    mine.push_back(span(params_.shard().data, r.from, r.numel));
  }
  if (total == 0) return;
  std::vector<Move> moves;
  if (params_.reads_shards()) {
    for (const int rank : shared_memory_group_->machines()[shared_memory_group_->own_machine()]) {
      const TensorView shard = params_.shard_at(shared_memory_group_->place(rank));
      for (const Run& r : exchange[rank].runs) {
        moves.push_back(
            {target + r.to * width_, span(shard.data, r.from, r.numel).data(), r.numel * width_});
      }
    }
    memory_.space().copy_many(moves);
    return send_far(mine, places);
  }
  if (exchange.size() == 1) {  // a single rank
    for (std::size_t i = 0; i < mine.size(); ++i) {
      moves.push_back({places[0][i].data(), mine[i].data(), numel(mine[i])});
    }
    return memory_.space().copy_many(moves);
  }
  gather_packed(comm_, mine, places, memory_.in);
}

void ParamGather::gather(const FlatRange& unit, const TensorView& full) {
  ZP_CHECK(setup_.stage == 3 && full.numel == unit.numel() && full.dtype == setup_.param_dtype &&
               (full.data != nullptr || full.numel == 0),
           ErrorCode::invalid_argument,
           "a unit of " + std::to_string(unit.numel()) + " elements was requested as " +
               std::to_string(full.numel) + " " + std::string(name(full.dtype)) + " in stage " +
               std::to_string(setup_.stage),
           "only stage 3 gathers units, in the dtype of the parameters",
           "pass a view of the whole unit");
  auto* target = static_cast<std::byte*>(full.data);
  run(plan_of(unit), target);
  std::vector<Move> moves;
  const auto* whole = static_cast<const std::byte*>(full_->data());
  const std::vector<TensorSlot>& tensors = setup_.layout->tensors();
  auto slot = std::ranges::lower_bound(tensors, unit.begin, {}, &TensorSlot::begin);
  for (; slot != tensors.end() && slot->begin < unit.end; ++slot) {
    const std::int64_t from = persistent_begin_[slot - tensors.begin()];
    if (from < 0 || slot->numel == 0) continue;
    moves.push_back({target + (slot->begin - unit.begin) * width_, whole + from * width_,
                     slot->numel * width_});
  }
  memory_.space().copy_many(moves);
}

void ParamGather::gather_all() {
  params_.fence();
  if (setup_.stage == 3) return run(persistent_, static_cast<std::byte*>(full_->data()));
  if (in_shard_) return;
  if (params_.reads_shards()) copy_shards();
  if (!params_.reads_shards() && !params_.one_copy()) return gather_buckets();
  if (shared_memory_group_->all()) return;
  gather_far_buckets();
  if (params_.one_copy()) params_.fence();
}

void ParamGather::gather_buckets() {
  for (const BucketPlan& plan : plans_) {
    std::vector<Stretches> places;
    for (const RankPart& part : plan.parts())
      append(places.emplace_back(), part, static_cast<std::byte*>(full_->data()), 0, width_);
    // This rank's part is packed in its shard.
    gather_packed(
        comm_, {bytes_at(params_.shard().data, plan.local_begin * width_, plan.own.numel * width_)},
        places, memory_.in);
  }
}

/// Every rank has its own copy: from the shards of the machine.
void ParamGather::copy_shards() {
  const bool streamed = host::streams_past_caches(full_->view().num_bytes());
  for (std::size_t place = 0; place < near_shards_.size(); ++place) {
    const NodeValues shard = NodeValues::packed(params_.shard_at(static_cast<int>(place)));
    const NodeValues target = NodeValues::flat(full_->view(), 0);
    near_shards_[place].run(setup_.exec, [&](const Exec& exec, const Piece& run) {
      host::copy_bytes(exec, shard.bytes(run), target.bytes(run), streamed);
    });
  }
}

/// One copy for the machine receives elements of other machines once: on the rank at the owner's
/// position modulo the number of local ranks.
bool ParamGather::takes(int receiver, int owner) const {
  const std::size_t machine = shared_memory_group_->machine_of(receiver);
  if (machine == shared_memory_group_->machine_of(owner)) return false;
  const auto ranks = static_cast<int>(shared_memory_group_->machines()[machine].size());
  return !params_.one_copy() ||
         shared_memory_group_->place(owner) % ranks == shared_memory_group_->place(receiver);
}

void ParamGather::gather_far_buckets() {
  auto* const target = static_cast<std::byte*>(full().data);
  for (const BucketPlan& plan : plans_) {
    std::vector<Stretches> places;
    for (const RankPart& part : plan.parts())
      append(places.emplace_back(), part, target, 0, width_);
    send_far(places[setup_.comm->rank()], places);
  }
}

/// mine: this rank's part; places: [world_size] destinations of the others' parts. Ranks of one
/// machine exchange nothing.
void ParamGather::send_far(const Stretches& mine, const std::vector<Stretches>& places) {
  if (shared_memory_group_->all()) return;
  const int self = setup_.comm->rank();
  std::vector<Stretches> send(places.size());
  std::vector<std::int64_t> recv_bytes(places.size(), 0);
  for (std::size_t r = 0; r < places.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (takes(rank, self)) send[r] = mine;
    if (!takes(self, rank)) continue;
    for (const Span<std::byte> stretch : places[r]) recv_bytes[r] += numel(stretch);
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(comm_, send, recv_bytes, memory_.out, memory_.in);
  std::vector<Move> moves;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (recv_bytes[r] > 0) unpack(arrived[r].data(), places[r], moves);
  }
  memory_.space().copy_many(moves);
}

}  // namespace zeroproof::cuda
