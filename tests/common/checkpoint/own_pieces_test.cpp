// Every element of a state is written by exactly one rank, whatever the stage, the layout and the grid.

#include "common/checkpoint/own_pieces.hpp"

#include <doctest.h>

#include <mutex>

#include "tests/common/checkpoint/held_state.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("own pieces: every element once, found where it lies, with its place in the undistributed model") {
  int ranks_without = 0;
  for (const Held& held : many_places()) {
    CAPTURE(to_string(held));
    std::vector<int> writers(static_cast<std::size_t>(held_layout().padded_numel()), 0);
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
        const TensorSlot& slot = held_layout().tensors()[static_cast<std::size_t>(one.piece.tensor)];
        const Span<const float> values = elements_of(one, buffer);
        for (std::int64_t e = 0; e < one.piece.numel; ++e) {
          const std::int64_t element = one.piece.element(e);
          if (element < 0 || element >= slot.numel) {
            ++in_padding;
            continue;
          }
          ++writers[static_cast<std::size_t>(slot.begin + element)];
          if (values[static_cast<std::size_t>(e)] != held_value(BufferId::exp_avg, slot.begin + element))
            ++misplaced;
        }
      }
    });
    std::int64_t missing = 0, repeated = 0;
    for (std::int64_t place = 0; place < held_layout().padded_numel(); ++place) {
      const int expected = held_layout().tensor_at(place) < 0 ? 0 : 1;
      if (writers[static_cast<std::size_t>(place)] < expected) ++missing;
      if (writers[static_cast<std::size_t>(place)] > expected) ++repeated;
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
      FAIL("was found");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::internal);
      CHECK(std::string(error.what()).find("that it owns") != std::string::npos);
    }
  });
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
