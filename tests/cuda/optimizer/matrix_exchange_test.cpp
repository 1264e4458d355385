// The plan that brings matrices together (R28), moved by hand: no communicator carries an element.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cuda/optimizer/matrices/matrix_exchange.hpp"
#include "tests/cuda/optimizer/muon_truth.hpp"
#include "tests/cuda/optimizer/muon_world.hpp"
#include "tests/support/shard_maps.hpp"

namespace matrix_exchange_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using cuda::MatrixBatch;
using cuda::MatrixExchange;
using cuda::MatrixMessages;
using cuda::MatrixRun;

/// One rank with its plan and its shard, whose elements are their undistributed indices.
struct PlannedRank {
  std::unique_ptr<MatrixExchange> plan;
  std::vector<std::int64_t> shard;              ///< padding: -1
  std::vector<std::int64_t> memory;             ///< of a batch
  std::set<std::int64_t> owned;                 ///< undistributed elements of its shard
  std::vector<std::vector<std::int64_t>> sent;  ///< [ranks] in the order of the message
};

std::int64_t at(const Grid& grid, int rank, int tp) { return rank * grid.tp + tp; }

std::vector<PlannedRank> planned(const World& world, std::int64_t batch_numel) {
  std::vector<PlannedRank> ranks(world.grid.size());
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    PlannedRank& one = ranks[place.number];
    one.plan = std::make_unique<MatrixExchange>(rank.setup, cuda::gather_matrix_parts(rank.setup),
                                                batch_numel);
    const std::vector<FlatRange> ranges =
        world.setup.stage == 0 ? std::vector<FlatRange>{{0, rank.model.layout.padded_numel()}}
                               : rank.shards.shard(place.rank);
    std::int64_t numel = 0;
    for (const FlatRange& range : ranges) numel += range.numel();
    one.shard.assign(numel, -1);
    for (const Piece& piece : rank.model.layout.pieces(ranges)) {
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        one.shard[piece.local_begin + e] = rank.model.global(piece, e);
        one.owned.insert(rank.model.global(piece, e));
      }
    }
  });
  return ranks;
}

/// A matrix in memory, as undistributed indices: the lines of one part after another.
std::vector<std::int64_t> expected_memory(const TensorSlot& slot, const MatrixTensor& matrix) {
  std::vector<std::int64_t> places;
  const std::int64_t rows = slot.shape[0], columns = slot.shape[1];
  for (std::size_t p = 0; p < static_cast<std::size_t>(matrix.num_parts()); ++p) {
    const std::vector<std::int64_t> lines =
        lines_of_part(matrix, p, matrix.by_columns ? columns : rows);
    if (matrix.by_columns) {
      for (std::int64_t row = 0; row < rows; ++row)
        for (const std::int64_t line : lines) places.push_back(slot.begin + row * columns + line);
    } else {
      for (const std::int64_t line : lines)
        for (std::int64_t column = 0; column < columns; ++column)
          places.push_back(slot.begin + line * columns + column);
    }
  }
  return places;
}

std::string shown(const World& world) {
  return to_string(world) + ", owners " +
         std::string(names_of(MatrixOwners{})[static_cast<int>(world.setup.matrix_owners)]);
}

/// Bytes of the message buffers of one batch: parts at multiples of 16 bytes; one run is sent from
/// its place.
struct BufferBytes {
  std::int64_t out = 0, in = 0, gathered = 0;

  void add(std::int64_t& to, const std::vector<MatrixRun>& runs, bool from_place) {
    std::int64_t numel = 0;
    for (const MatrixRun& run : runs) numel += run.numel;
    if (!from_place || runs.size() > 1) to += (4 * numel + 15) / 16 * 16;
  }
};

BufferBytes buffer_bytes(const MatrixExchange& plan, const Grid& grid, const MatrixBatch& batch,
                         const std::function<bool(std::int64_t)>& updated) {
  BufferBytes forward, back;
  const MatrixMessages messages = plan.messages(batch, updated);
  for (const auto& runs : messages.away) {
    forward.add(forward.out, runs, true);
    back.add(back.in, runs, false);
  }
  for (const auto& runs : messages.here) {
    forward.add(forward.in, runs, false);
    back.add(back.out, runs, true);
  }
  for (int tp = 0; tp < grid.tp && grid.tp > 1; ++tp)
    forward.add(forward.gathered, plan.tp_runs(batch, updated, tp), true);
  if (!plan.returns()) return forward;
  return {std::max(forward.out, back.out), std::max(forward.in, back.in), forward.gathered};
}

/// The buffers are as large as the largest batch needs them if all matrices are updated.
void check_bytes(const MatrixExchange& plan, const Grid& grid,
                 const std::function<bool(std::int64_t)>& updated) {
  BufferBytes most;
  const cuda::MatrixMessageBytes planned = plan.message_bytes();
  for (const MatrixBatch& batch : plan.batches()) {
    const BufferBytes all = buffer_bytes(plan, grid, batch, [](std::int64_t) { return true; });
    const BufferBytes some = buffer_bytes(plan, grid, batch, updated);
    most = {std::max(most.out, all.out), std::max(most.in, all.in),
            std::max(most.gathered, all.gathered)};
    CHECK(some.out <= planned.out);
    CHECK(some.in <= planned.in);
    CHECK(some.gathered <= planned.gathered);
  }
  CHECK(planned.out == most.out);
  CHECK(planned.in == most.in);
  CHECK(planned.gathered == most.gathered);
}

/// Moves the elements of every batch as the plans say, and back.
void check_plan(const World& world, std::int64_t batch_numel,
                const std::function<bool(std::int64_t)>& updated) {
  INFO(shown(world), ", batches of ", batch_numel);
  const Grid& grid = world.grid;
  const FlatLayout whole(world.tensors.params);
  std::vector<PlannedRank> ranks = planned(world, batch_numel);
  for (const PlannedRank& one : ranks) check_bytes(*one.plan, grid, updated);
  const MatrixExchange& first = *ranks[0].plan;
  std::int64_t next = 0;
  for (std::size_t b = 0; b < first.batches().size(); ++b) {
    REQUIRE(first.batches()[b].first == next);
    next = first.batches()[b].end;
    std::vector<MatrixMessages> messages;
    bool moves = false;
    for (PlannedRank& one : ranks) {
      const MatrixBatch& batch = one.plan->batches()[b];
      REQUIRE(batch.first == first.batches()[b].first);
      REQUIRE(batch.end == next);
      one.memory.assign(batch.numel, -2);
      messages.push_back(one.plan->messages(batch, updated));
      one.sent.assign(one.plan->ranks(), {});
      for (int to = 0; to < one.plan->ranks(); ++to) {
        for (const MatrixRun& run : messages.back().away[to]) {
          moves = true;
          CHECK(updated(whole.tensor_at(one.shard[run.local_begin])));
          for (std::int64_t i = 0; i < run.numel; ++i)
            one.sent[to].push_back(one.shard[run.local_begin + i]);
        }
      }
      for (const MatrixRun& run : messages.back().own)
        for (std::int64_t i = 0; i < run.numel; ++i)
          one.memory[run.place + i] = one.shard[run.local_begin + i];
    }
    if (moves) CHECK(first.batches()[b].moves);
    for (int tp = 0; tp < grid.tp; ++tp) {
      for (int to = 0; to < first.ranks(); ++to) {
        PlannedRank& receiver = ranks[at(grid, to, tp)];
        for (int from = 0; from < first.ranks(); ++from) {
          const std::vector<std::int64_t>& message = ranks[at(grid, from, tp)].sent[to];
          std::size_t taken = 0;
          for (const MatrixRun& run : messages[at(grid, to, tp)].here[from]) {
            for (std::int64_t i = 0; i < run.numel; ++i, ++taken) {
              REQUIRE(taken < message.size());
              receiver.memory[run.place + i] = message[taken];
              // The way back: the same elements, at their places in the sender's shard.
              CHECK(ranks[at(grid, from, tp)].shard[run.local_begin + i] == message[taken]);
            }
          }
          CHECK(taken == message.size());
        }
      }
    }
    // TP ranks complete the matrices that they split.
    for (int rank = 0; rank < first.ranks(); ++rank) {
      for (int from = 0; from < grid.tp && grid.tp > 1; ++from) {
        const MatrixBatch& batch = ranks[at(grid, rank, from)].plan->batches()[b];
        const std::vector<MatrixRun> runs =
            ranks[at(grid, rank, from)].plan->tp_runs(batch, updated, from);
        for (int to = 0; to < grid.tp; ++to) {
          PlannedRank& receiver = ranks[at(grid, rank, to)];
          const std::vector<MatrixRun> places =
              receiver.plan->tp_runs(receiver.plan->batches()[b], updated, from);
          REQUIRE(places.size() == runs.size());
          for (std::size_t r = 0; r < runs.size(); ++r) {
            REQUIRE(places[r].numel == runs[r].numel);
            for (std::int64_t i = 0; i < runs[r].numel; ++i)
              receiver.memory[places[r].place + i] =
                  ranks[at(grid, rank, from)].memory[runs[r].place + i];
          }
        }
      }
    }
    for (int rank = 0; rank < first.ranks(); ++rank) {
      for (int tp = 0; tp < grid.tp; ++tp) {
        const PlannedRank& one = ranks[at(grid, rank, tp)];
        std::int64_t in_memory = 0, num_gathered = 0;
        for (std::int64_t m = first.batches()[b].first; m < next; ++m) {
          const std::int64_t tensor = first.matrices()[m].tensor;
          const TensorSlot& slot = whole.tensors()[tensor];
          const bool owns = std::ranges::any_of(one.owned, [&](std::int64_t element) {
            return element >= slot.begin && element < slot.begin + slot.numel;
          });
          if (one.plan->gathers(m)) {
            in_memory += slot.numel;
            ++num_gathered;
          }
          const bool every = !one.plan->returns();
          if (every) CHECK(one.plan->computes(m) == owns);
          if (!one.plan->gathers(m)) continue;
          if (!updated(tensor)) continue;
          const std::vector<std::int64_t> want =
              expected_memory(slot, world.setup.matrix_tensors[tensor]);
          const auto begin = one.memory.begin() + one.plan->begin_of(m);
          CHECK(std::equal(want.begin(), want.end(), begin));
        }
        CHECK(in_memory == one.plan->batches()[b].numel);
        if (num_gathered > 1) CHECK(in_memory <= batch_numel);
      }
    }
  }
  CHECK(next == static_cast<std::int64_t>(first.matrices().size()));
}

constexpr MatrixOwners all_owners[] = {MatrixOwners::every, MatrixOwners::round_robin,
                                       MatrixOwners::balanced};
constexpr std::int64_t unlimited = std::int64_t{1} << 40;

bool every_matrix(std::int64_t /*tensor*/) { return true; }

}  // namespace

TEST_CASE("matrix exchange: every gatherer gets each element of its matrices at its place") {
  for (const MatrixOwners owners : all_owners) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const int stage : {0, 1}) {
        World world = muon_world({1, ranks}, stage, false);
        world.setup.matrix_owners = owners;
        for (const auto& shards : {std::function<ShardMap(const FlatLayout&, int)>(ragged_map),
                                   dealt_map(Dealt::stretches), dealt_map(Dealt::tensors),
                                   dealt_map(Dealt::last_rank), World::contract_map(1024)}) {
          world.shards = shards;
          check_plan(world, unlimited, every_matrix);
        }
      }
    }
  }
}

TEST_CASE("matrix exchange: matrices that TP ranks split are completed") {
  for (const MatrixOwners owners : all_owners) {
    for (const Grid& grid : {Grid{1, 1, 2}, Grid{1, 3, 2}, Grid{1, 2, 4}, Grid{1, 5, 8}}) {
      for (const int stage : {0, 2}) {
        World world = muon_tp_world(grid, stage, false);
        world.setup.matrix_owners = owners;
        check_plan(world, unlimited, every_matrix);
        check_plan(world, 700, [](std::int64_t tensor) { return tensor % 2 == 1; });
      }
    }
  }
}

TEST_CASE("matrix exchange: batches are limited by the elements of one rank") {
  World world = muon_world({1, 3}, 1, false);
  for (const MatrixOwners owners : all_owners) {
    world.setup.matrix_owners = owners;
    for (const std::int64_t most : {1, 1000, 2000})
      check_plan(world, most, [](std::int64_t tensor) { return tensor != 2; });
  }
  // Six matrices on three ranks, each owner with one at a time.
  world.setup.matrix_owners = MatrixOwners::round_robin;
  const std::vector<PlannedRank> ranks = planned(world, 1);
  CHECK(ranks[0].plan->matrices().size() == 6);
  CHECK(ranks[0].plan->batches().size() == 2);
}

TEST_CASE("matrix exchange: nothing moves where each matrix is on one rank") {
  World world = muon_world({1, 3}, 1, false);
  world.shards = dealt_map(Dealt::tensors);
  for (const PlannedRank& one : planned(world, unlimited))
    for (const MatrixBatch& batch : one.plan->batches()) CHECK(!batch.moves);
  world.setup.matrix_owners = MatrixOwners::round_robin;
  CHECK(planned(world, unlimited)[0].plan->batches()[0].moves);
  world.setup.stage = 0;
  for (const PlannedRank& one : planned(world, unlimited))
    for (const MatrixBatch& batch : one.plan->batches()) CHECK(!batch.moves);
}

}  // namespace matrix_exchange_test
