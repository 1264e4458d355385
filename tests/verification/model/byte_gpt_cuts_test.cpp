// The tensors of the model under tensor parallelism.

#include <doctest.h>

#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/model/byte_gpt_cuts.hpp"

namespace byte_gpt_cuts_test {

using namespace zeroproof;
using namespace zeroproof::workload;

TEST_CASE("byte_gpt TP: only linear layers are split, by heads and hidden units") {
  ByteGptShape gated = byte_gpt_grid_shape;
  gated.swiglu = true;
  for (const ByteGptShape& shape : {byte_gpt_grid_shape, gated}) {
    const std::vector<ParamSpec> params = byte_gpt_params(shape);
    const std::vector<int> cuts = byte_gpt_cuts(shape);
    REQUIRE(cuts.size() == params.size());
    for (std::size_t k = 0; k < params.size(); ++k) {
      const std::string& name = params[k].name;
      const auto is = [&](const char* text) { return name.find(text) != std::string::npos; };
      int expected = -1;
      const bool columns =
          is(".query.") || is(".key.") || is(".value.") || is(".gate.") || is(".up.");
      if (columns) expected = is(".weight") ? 1 : 0;
      if (is("attention.output.weight") || is("mlp.down.weight")) expected = 0;
      CAPTURE(name);
      CHECK(cuts[k] == expected);
    }
  }
}

TEST_CASE("byte_gpt TP: ranks have every element of a split tensor once, row by row") {
  for (const ByteGptShape& shape : {byte_gpt_grid_shape8, ByteGptShape{1, 8, 8, 3, 5},
                                    ByteGptShape{1, 8, 8, 3, 5, false, true}}) {
    const FlatLayout whole(byte_gpt_params(shape));
    const std::vector<int> cuts = byte_gpt_cuts(shape);
    for (const int tp : {1, 2, 4, 8}) {
      std::vector<int> owners(whole.padded_numel());
      for (int t = 0; t < tp; ++t) {
        const TpModel model = byte_gpt_tp_model(shape, tp, t);
        const FlatLayout local(model.params);
        const std::vector<TensorPlacement>& places = model.placement;
        REQUIRE(places.size() == whole.tensors().size());
        for (std::size_t k = 0; k < places.size(); ++k) {
          const TensorSlot& slot = local.tensors()[k];
          const TensorSlot& of = whole.tensors()[k];
          CHECK(slot.name == of.name);
          CHECK(places[k].tp_replicated == (cuts[k] < 0));
          const std::int64_t last = slot.shape.size() > 1 ? slot.shape[1] : 1;
          const std::int64_t last_of = slot.shape.size() > 1 ? of.shape[1] : 1;
          const auto begin = [&](int dimension) {  // floor(n * 8 t / tp / 8)
            return cuts[k] == dimension ? of.shape[dimension] * (8 * t / tp) / 8 : 0;
          };
          for (std::int64_t e = 0; e < slot.numel; ++e) {
            const std::int64_t row = e / last + begin(0);
            const std::int64_t column = e % last + begin(1);
            REQUIRE(places[k].global(e) == of.begin + row * last_of + column);
            if (!places[k].tp_replicated || t == 0) ++owners[places[k].global(e)];
          }
        }
      }
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < whole.padded_numel(); ++i) {
        if (owners[i] != (whole.tensor_at(i) < 0 ? 0 : 1)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("byte_gpt TP: invalid ranks are rejected") {
  CHECK_THROWS_AS(byte_gpt_tp_model(byte_gpt_grid_shape, 4, 4), Error);
  CHECK_THROWS_AS(byte_gpt_tp_model(byte_gpt_grid_shape, 2, -1), Error);
  CHECK_THROWS_AS(byte_gpt_tp_model(byte_gpt_grid_shape, 8, 0), Error);  // 4 heads
  CHECK_THROWS_AS(byte_gpt_tp_model(byte_gpt_grid_shape, 3, 0), Error);
  CHECK_THROWS_AS(byte_gpt_tp_model({1, 10, 3, 4, 4}, 1, 0), Error);
}

}  // namespace byte_gpt_cuts_test
