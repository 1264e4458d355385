#include "common/layout/tp_cut.hpp"

#include <doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"

namespace tp_cut_test {

using namespace zeroproof;

namespace {

using Shape = std::vector<std::int64_t>;

/// Index along one dimension of element e of a tensor in row-major order.
std::int64_t index_along(const Shape& shape, std::size_t dim, std::int64_t e) {
  for (std::size_t d = shape.size(); d-- > dim + 1;) e /= shape[d];
  return e % shape[dim];
}

/// Undistributed elements a TP rank has, in order: those whose index is in its blocks.
std::vector<std::int64_t> expected_elements(const TensorSlot& slot, int cut, int tp_size,
                                            int tp_rank) {
  std::vector<std::int64_t> elements;
  for (std::int64_t e = 0; e < slot.numel; ++e) {
    bool mine = cut == -1;
    if (cut >= 0) {
      const std::int64_t n = slot.shape[cut];
      const std::int64_t i = index_along(slot.shape, static_cast<std::size_t>(cut), e);
      for (int b = 0; b < 8; ++b) {
        mine = mine || (i >= n * b / 8 && i < n * (b + 1) / 8 && b / (8 / tp_size) == tp_rank);
      }
    }
    if (mine) elements.push_back(slot.begin + e);
  }
  return elements;
}

const std::vector<ParamSpec> model = {
    {"matrix", {15, 37}}, {"bias", {37}},  {"tall", {2050, 3}},    {"cube", {5, 9, 7}},
    {"scalar", {}},       {"empty", {0}},  {"no_rows", {0, 12}},   {"no_columns", {12, 0}},
    {"one", {1}},         {"few", {3, 2}}, {"four", {2, 3, 4, 5}}, {"last", {1024}}};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "tp_cut: over the ranks every element of a split tensor appears once, of a whole one tp "
    "times") {
  const FlatLayout layout(model);
  for (const int tp_size : {1, 2, 4, 8}) {
    for (int choice = -1; choice < 4; ++choice) {  // this dimension of every tensor that has it
      std::vector<int> cuts;
      for (const ParamSpec& param : model)
        cuts.push_back(choice < static_cast<int>(param.shape.size()) ? choice : -1);
      std::vector<int> seen(layout.padded_numel(), 0);
      bool same = true;
      for (int rank = 0; rank < tp_size; ++rank) {
        const TpModel part = make_tp_model(model, cuts, tp_size, rank);
        REQUIRE(part.params.size() == model.size());
        REQUIRE(part.placement.size() == model.size());
        for (std::size_t k = 0; k < model.size(); ++k) {
          const TensorSlot& slot = layout.tensors()[k];
          const std::vector<std::int64_t> expected =
              expected_elements(slot, cuts[k], tp_size, rank);
          const ParamSpec& local = part.params[k];
          same = same && local.name == slot.name && local.shape.size() == slot.shape.size();
          same = same && part.placement[k].tp_replicated == (cuts[k] == -1);
          REQUIRE(part.placement[k].row_numel >= 1);  // it is divided by
          REQUIRE(local.numel() == static_cast<std::int64_t>(expected.size()));
          for (std::int64_t e = 0; e < local.numel(); ++e) {
            const std::int64_t global = part.placement[k].global(e);
            same = same && global == expected[e];
            ++seen.at(global);
          }
        }
      }
      CAPTURE(tp_size);
      CAPTURE(choice);
      CHECK(same);
      bool counted = true;
      for (std::size_t k = 0; k < model.size(); ++k) {
        const TensorSlot& slot = layout.tensors()[k];
        for (std::int64_t e = 0; e < slot.numel; ++e) {
          counted = counted && seen[slot.begin + e] == (cuts[k] == -1 ? tp_size : 1);
        }
      }
      CHECK(counted);
    }
  }
}

TEST_CASE("tp_cut: uneven parts by hand") {
  // 37 columns over 4 ranks: blocks begin at 0 4 9 13 18 23 27 32, so the ranks begin at 0 9 18 27.
  const Shape widths = {9, 9, 9, 10};
  for (int rank = 0; rank < 4; ++rank) {
    const TpModel part = make_tp_model({{"before", {1}}, {"w", {15, 37}}}, {-1, 1}, 4, rank);
    CHECK(part.params[1].shape == Shape{15, widths[rank]});
    const TensorPlacement& place = part.placement[1];
    CHECK(place.begin == 1024 + 9 * rank);
    CHECK(place.row_numel == widths[rank]);
    CHECK(place.row_stride == 37);
    CHECK(place.global(place.row_numel) == place.begin + 37);
    CHECK(part.placement[0].begin == 0);
    CHECK(part.placement[0].row_numel == 1);
    CHECK(part.placement[0].row_stride == 1);
  }
  // Three rows over 8 ranks: floor(3 b / 8) = 0 0 0 1 1 1 2 2 3.
  const Shape rows = {0, 0, 1, 0, 0, 1, 0, 1};
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(make_tp_model({{"w", {3, 2}}}, {0}, 8, rank).params[0].shape == Shape{rows[rank], 2});
  }
  // An empty tensor may have a dimension whose product with a block number does not fit 64 bits.
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(make_tp_model({{"w", {huge, 0}}}, {0}, 8, 7).params[0].shape ==
        Shape{std::int64_t{1} << 60, 0});
  CHECK(
      make_tp_model({{"w", {4, std::int64_t{1} << 62, 4, 0}}}, {0}, 2, 1).placement[0].row_stride ==
      4);
}

TEST_CASE("tp_cut: invalid arguments are rejected") {
  const std::vector<ParamSpec> one = {{"w", {4, 4}}};
  for (const int size : {-1, 0, 3, 5, 6, 7, 16})
    CHECK(has(refusal([&] { make_tp_model(one, {0}, size, 0); }), "TP ranks"));
  CHECK(has(refusal([&] { make_tp_model(one, {0}, 4, 4); }), "TP rank 4 of 4"));
  CHECK(has(refusal([&] { make_tp_model(one, {0}, 4, -1); }), "TP rank -1"));
  CHECK(has(refusal([&] { make_tp_model(one, {}, 4, 0); }), "0 split dimensions for 1 tensors"));
  CHECK(has(refusal([&] {
              make_tp_model(one, {0, 0}, 4, 0);
            }),
            "2 split dimensions for 1 tensors"));
  CHECK(has(refusal([&] { make_tp_model(one, {2}, 4, 0); }), "no dimension 2"));
  CHECK(has(refusal([&] { make_tp_model(one, {-2}, 4, 0); }), "no dimension -2"));
  CHECK(has(refusal([&] { make_tp_model({{"s", {}}}, {0}, 4, 0); }), "s has no dimension 0"));
  CHECK(has(refusal([&] { make_tp_model({{"a", {1}}, {"a", {1}}}, {0, 0}, 4, 0); }), "used twice"));
  CHECK(make_tp_model({}, {}, 8, 7).params.empty());
}

}  // namespace tp_cut_test
