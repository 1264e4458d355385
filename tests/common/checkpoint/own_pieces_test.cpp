// Every element of a state is written by exactly one rank, for every stage, layout and grid.

#include "common/checkpoint/own_pieces.hpp"

#include <doctest.h>

#include <mutex>

#include "common/layout/tp_cut.hpp"
#include "tests/common/checkpoint/held_state.hpp"

namespace own_pieces_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE(
    "own pieces: every element once, found in its buffer, with its position in the undistributed "
    "model") {
  int ranks_without = 0;
  for (const Held& held : many_places()) {
    CAPTURE(to_string(held));
    std::vector<int> writers(held_layout().padded_numel(), 0);
    std::int64_t misplaced = 0, elsewhere = 0, in_padding = 0;
    std::mutex lock;
    run_grid(held.grid, [&](const GridPlace& place) {
      HeldState state(held, place, held_values());
      const std::vector<OwnPiece> own = own_pieces(state.setup(), held_layout());
      const ExposedBuffer buffer = state.buffer(BufferId::exp_avg);
      const std::lock_guard guard(lock);
      if (own.empty()) ++ranks_without;
      if (place.instance > 0 && !own.empty()) ++elsewhere;
      for (const OwnPiece& one : own) {
        const TensorSlot& slot = held_layout().tensors()[one.piece.tensor];
        const Span<const float> values = elements_of(one, buffer);
        for (std::int64_t e = 0; e < one.piece.numel; ++e) {
          const std::int64_t element = one.piece.element(e);
          if (element < 0 || element >= slot.numel) {
            ++in_padding;
            continue;
          }
          ++writers[slot.begin + element];
          if (values[e] != held_value(BufferId::exp_avg, slot.begin + element)) ++misplaced;
        }
      }
    });
    std::int64_t missing = 0, repeated = 0;
    for (std::int64_t place = 0; place < held_layout().padded_numel(); ++place) {
      const int expected = held_layout().tensor_at(place) < 0 ? 0 : 1;
      if (writers[place] < expected) ++missing;
      if (writers[place] > expected) ++repeated;
    }
    CHECK(missing == 0);
    CHECK(repeated == 0);
    CHECK(misplaced == 0);
    CHECK(in_padding == 0);
    CHECK(elsewhere == 0);
  }
  CHECK(ranks_without > 0);
}

TEST_CASE("own pieces: a buffer that lacks elements is a defect, not a shorter checkpoint") {
  run_grid({1, 2, 1, 1}, [](const GridPlace& place) {
    HeldState state({{1, 2, 1, 1}, LayoutKind::contract, 1}, place, held_values());
    const std::vector<OwnPiece> own = own_pieces(state.setup(), held_layout());
    REQUIRE(!own.empty());
    ExposedBuffer buffer = state.buffer(BufferId::master);
    buffer.ranges.back().end = own.back().local_begin + own.back().piece.numel - 1;
    try {
      place_of(own.back(), buffer);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::internal);
      CHECK(std::string(error.what()).find("that it owns") != std::string::npos);
    }
  });
}

TEST_CASE("own pieces: every scale of a block of state once, on its rank, also with TP") {
  const std::vector<ParamSpec> params = {{"wide", {6, 1024}}, {"tall", {16, 200}},
                                         {"odd", {9, 300}},   {"gain", {37}},
                                         {"none", {0}},       {"scalar", {}}};
  const FlatLayout whole(params);
  const auto num_blocks = static_cast<std::size_t>(whole.padded_numel() / state_block_numel);
  for (const int tp : {1, 2, 4}) {
    for (const int ranks : {1, 3, 5}) {
      std::vector<int> writers(num_blocks, 0);
      std::size_t pieces_of_wide = 0;
      for (int tp_rank = 0; tp_rank < tp; ++tp_rank) {
        const TpModel model = make_tp_model(params, {1, 0, 1, -1, 0, -1}, tp, tp_rank);
        const FlatLayout layout(model.params);
        for (int rank = 0; rank < ranks; ++rank) {
          const std::int64_t begin = layout.padded_numel() * rank / ranks;
          const FlatRange range{begin, layout.padded_numel() * (rank + 1) / ranks};
          std::vector<bool> has(num_blocks, false);
          for (const Piece& piece : layout.pieces({range})) {
            const TensorPlacement& place = model.placement[piece.tensor];
            for (std::int64_t e = 0; e < piece.numel; ++e)
              has[place.global(piece.tensor_begin + e) / state_block_numel] = true;
          }
          ExposedBuffer buffer{BufferId::exp_avg_scale, {}, {}};
          std::vector<std::int64_t>
              held;  // numbers of the rank's blocks, in the order of its scales
          for (std::int64_t block = 0; block < static_cast<std::int64_t>(num_blocks); ++block) {
            if (!has[block]) continue;
            held.push_back(block);
            if (!buffer.ranges.empty() && buffer.ranges.back().end == block) {
              ++buffer.ranges.back().end;
            } else {
              buffer.ranges.push_back({block, block + 1});
            }
          }
          const std::vector<OwnPiece> own =
              own_pieces({layout, {range}, model.placement, true, tp_rank == 0}, whole);
          for (const OwnPiece& one : scales_of(own, whole, tp)) {
            REQUIRE(one.piece.numel > 0);
            pieces_of_wide += one.piece.tensor == 0 ? 1 : 0;
            const std::int64_t first = whole.tensors()[one.piece.tensor].begin;
            const std::int64_t place = place_of(one, buffer);
            for (std::int64_t e = 0; e < one.piece.numel; ++e) {
              const std::int64_t block = first / state_block_numel + one.piece.element(e);
              ++writers[block];
              CHECK(held.at(place + e) == block);
            }
          }
        }
      }
      std::size_t wrong = 0;
      for (std::size_t block = 0; block < num_blocks; ++block) {
        const std::int64_t first = static_cast<std::int64_t>(block) * state_block_numel;
        wrong += writers[block] == (whole.tensor_at(first) < 0 ? 0 : 1) ? 0 : 1;
      }
      CHECK(wrong == 0);
      CHECK(pieces_of_wide <=
            static_cast<std::size_t>(tp * ranks));  // not one for each of its rows
    }
  }
}

TEST_CASE("own pieces: tensors of the checkpoint are those of the undistributed model") {
  const std::vector<CheckpointTensor> tensors = checkpoint_tensors(held_layout());
  REQUIRE(tensors.size() == held_params().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(tensors[i].name == held_params()[i].name);
    CHECK(tensors[i].shape == held_params()[i].shape);
    CHECK(tensors[i].begin == held_layout().tensors()[i].begin);
    CHECK(numel(tensors[i]) == held_params()[i].numel());
  }
}

}  // namespace own_pieces_test
