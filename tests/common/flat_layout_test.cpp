#include "common/layout/flat_layout.hpp"

#include <doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/base/error.hpp"

namespace flat_layout_test {

using namespace zeroproof;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// The numbering written out element by element.
struct Model {
  std::vector<std::int64_t> tensor;  ///< tensor of every global index, -1 for padding
  std::vector<std::int64_t> inside;  ///< index from the tensor's start
  std::vector<std::string> where;    ///< coordinates
  std::vector<std::int64_t> begin;   ///< of every tensor
  std::int64_t numel = 0;

  void pad() {
    while (tensor.size() % 1024 != 0) add(-1, -1, "padding");
  }
  void add(std::int64_t t, std::int64_t index, std::string text) {
    tensor.push_back(t);
    inside.push_back(index);
    where.push_back(std::move(text));
  }
};

std::string bracketed(const std::vector<std::int64_t>& coordinates) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(coordinates[axis]);
  }
  return text + "]";
}

/// Increments the last coordinate; false after the last element.
bool next(std::vector<std::int64_t>& coordinates, const std::vector<std::int64_t>& shape) {
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (++coordinates[axis] < shape[axis]) return true;
    coordinates[axis] = 0;
  }
  return false;
}

Model brute_force(const std::vector<ParamSpec>& params) {
  Model model;
  for (std::size_t t = 0; t < params.size(); ++t) {
    const std::vector<std::int64_t>& shape = params[t].shape;
    model.begin.push_back(static_cast<std::int64_t>(model.tensor.size()));
    bool more = true;
    for (const std::int64_t dim : shape) more = more && dim != 0;
    std::vector<std::int64_t> at(shape.size());
    for (std::int64_t i = 0; more; ++i) {
      model.add(static_cast<std::int64_t>(t), i, bracketed(at));
      ++model.numel;
      more = next(at, shape);
    }
    model.pad();
  }
  return model;
}

std::vector<ParamSpec> random_params(std::mt19937_64& random) {
  static const std::vector<std::vector<std::int64_t>> shapes = {
      {},     {0},    {1},       {1023},    {1024},      {1025},    {2048},      {0, 7},
      {7, 0}, {1, 1}, {32, 32},  {3, 5, 7}, {2, 0, 3},   {25, 41},  {1, 1023},   {2, 2, 2, 2},
      {0, 0}, {2047}, {1025, 1}, {512},     {11, 1, 93}, {3, 1024}, {0, 1024, 2}};
  std::vector<ParamSpec> params;
  const std::uint64_t count = random() % 10;
  for (std::uint64_t i = 0; i < count; ++i) {
    // Every other list is mostly of empty tensors, so that rows of them appear everywhere.
    const bool empty = count % 2 == 0 && random() % 3 != 0;
    params.push_back(
        {"p" + std::to_string(i), empty ? shapes[1] : shapes[random() % shapes.size()]});
  }
  return params;
}

void check_against(const FlatLayout& layout, const std::vector<ParamSpec>& params,
                   const Model& model) {
  REQUIRE(layout.tensors().size() == params.size());
  for (std::size_t t = 0; t < params.size(); ++t) {
    CHECK(layout.tensors()[t].name == params[t].name);
    CHECK(layout.tensors()[t].shape == params[t].shape);
    CHECK(layout.tensors()[t].begin == model.begin[t]);
    CHECK(layout.tensors()[t].numel == params[t].numel());
  }
  const auto padded = static_cast<std::int64_t>(model.tensor.size());
  CHECK(layout.numel() == model.numel);
  CHECK(layout.padded_numel() == padded);
  std::int64_t wrong_tensors = 0;
  std::int64_t wrong_coordinates = 0;
  for (std::size_t i = 0; i < model.tensor.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    wrong_tensors += layout.tensor_at(index) == model.tensor[i] ? 0 : 1;
    wrong_coordinates += layout.coordinates(index) == model.where[i] ? 0 : 1;
  }
  CHECK(wrong_tensors == 0);
  CHECK(wrong_coordinates == 0);
  for (const std::int64_t outside :
       {-largest - 1, std::int64_t{-1}, padded, padded + 1, padded + 1024, largest}) {
    CHECK(layout.tensor_at(outside) == -1);
    CHECK(layout.coordinates(outside) == "padding");
  }
}

/// Increasing ranges with gaps, touching ones and empty ones; every other time split at multiples of 1024.
std::vector<FlatRange> random_ranges(std::int64_t padded, std::mt19937_64& random) {
  const std::int64_t unit = random() % 2 == 0 ? 1024 : 1;
  std::vector<FlatRange> ranges;
  std::int64_t at = 0;
  const auto step = [&] {
    const std::int64_t numel = static_cast<std::int64_t>(random() % 3000) / unit * unit;
    return random() % 3 == 0 ? 0 : std::min(numel, padded - at);
  };
  for (int i = 0; i < 12; ++i) {
    at += step();
    ranges.push_back({at, at + step()});
    at = ranges.back().end;
  }
  return ranges;
}

void check_pieces(const FlatLayout& layout, const Model& model,
                  const std::vector<FlatRange>& ranges) {
  const std::vector<Piece> pieces = layout.pieces(ranges);
  std::size_t current = 0;
  std::int64_t used = 0;  // elements of pieces[current] already seen
  std::int64_t local = 0;
  std::int64_t wrong = 0;
  for (const FlatRange& range : ranges) {
    for (std::int64_t g = range.begin; g < range.end; ++g, ++local) {
      const auto i = static_cast<std::size_t>(g);
      if (model.tensor[i] < 0) continue;
      if (current == pieces.size()) {
        ++wrong;
        continue;
      }
      const Piece& p = pieces[current];
      if (p.tensor != model.tensor[i] || p.tensor_begin + used != model.inside[i] ||
          p.global_begin + used != g || p.local_begin + used != local) {
        ++wrong;
      }
      if (++used >= p.numel) {
        ++current;
        used = 0;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(current == pieces.size());
  CHECK(used == 0);
  for (const Piece& piece : pieces) CHECK(piece.numel >= 1);
}

ErrorCode code_of(const std::vector<ParamSpec>& params) {
  try {
    const FlatLayout layout(params);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;  // nothing was thrown
}

}  // namespace

TEST_CASE("flat layout: random parameter lists against the numbering written out") {
  std::mt19937_64 random(20240229);
  for (int list = 0; list < 120; ++list) {
    CAPTURE(list);
    const std::vector<ParamSpec> params = random_params(random);
    const FlatLayout layout(params);
    const Model model = brute_force(params);
    check_against(layout, params, model);
    for (int i = 0; i < 10; ++i)
      check_pieces(layout, model, random_ranges(layout.padded_numel(), random));
    check_pieces(layout, model, {{0, layout.padded_numel()}});
  }
}

TEST_CASE("flat layout: empty tensors in a row at both ends and in the middle") {
  const std::vector<ParamSpec> params = {{"a", {0}},    {"b", {3, 0}}, {"c", {1024}}, {"d", {0}},
                                         {"e", {0, 0}}, {"f", {}},     {"g", {1, 0}}, {"h", {1025}},
                                         {"i", {0}},    {"j", {0, 9}}};
  const FlatLayout layout(params);
  check_against(layout, params, brute_force(params));
  CHECK(layout.tensor_at(0) == 2);
  CHECK(layout.tensor_at(1024) == 5);
  CHECK(layout.coordinates(1024) == "[]");
  CHECK(layout.tensor_at(1025) == -1);
  CHECK(layout.tensor_at(3072) == 7);
  CHECK(layout.tensors()[9].begin == 4096);
}

TEST_CASE(
    "flat layout: a piece read in parts of any size has the same elements as the piece "
    "does") {
  const FlatLayout layout({{"a", {3}}, {"b", {7, 300}}});
  // [1024 + 90, 1024 + 1130): the elements of the shard buffer from its element 5 on, after 5 elements of "a".
  const std::vector<Piece> pieces = layout.pieces({{0, 3}, {3, 5}, {1114, 2154}});
  const Piece& piece = pieces.back();
  REQUIRE(piece.numel == 1040);
  for (const std::int64_t most : {1, 7, 1024, 1039, 1040, 5000}) {
    CAPTURE(most);
    std::int64_t read = 0;
    while (read < piece.numel) {
      const Piece part = piece.part(read, most);
      CAPTURE(read);
      CHECK(part.tensor == 1);
      CHECK(part.tensor_begin == 90 + read);
      CHECK(part.global_begin == 1114 + read);
      CHECK(part.local_begin == 5 + read);
      REQUIRE(part.numel == (most < 1040 - read ? most : 1040 - read));
      read += part.numel;
    }
    CHECK(read == 1040);
  }
}

TEST_CASE("flat layout: no elements") {
  for (const std::vector<ParamSpec>& params :
       {std::vector<ParamSpec>{}, {{"a", {0}}}, {{"a", {0}}, {"b", {0}}}}) {
    const FlatLayout layout(params);
    check_against(layout, params, brute_force(params));
    CHECK(layout.padded_numel() == 0);
    CHECK(layout.pieces({}).empty());
    CHECK(layout.pieces({{0, 0}}).empty());
  }
}

TEST_CASE("flat layout: more than 2^32 elements") {
  const FlatLayout layout({{"a", {3, std::int64_t{1} << 33}}, {"b", {5}}});
  CHECK(layout.numel() == 3 * (std::int64_t{1} << 33) + 5);
  CHECK(layout.tensors()[1].begin == 3 * (std::int64_t{1} << 33));
  CHECK(layout.coordinates((std::int64_t{1} << 34) + 17) == "[2, 17]");
  CHECK(layout.tensor_at(3 * (std::int64_t{1} << 33) + 4) == 1);
}

TEST_CASE("flat layout: invalid parameters are rejected") {
  const std::int64_t half = std::int64_t{1} << 32;
  for (const std::vector<ParamSpec>& params : std::vector<std::vector<ParamSpec>>{
           {{"a", {-1}}},
           {{"a", {0, -1}}},
           {{"a", {-1, 0}}},
           {{"a", {-2, -3}}},
           {{"a", {-largest - 1}}},
           {{"", {1}}},
           {{"a", {1}}, {"", {0}}},
           {{"a", {1}}, {"a", {2}}},
           {{"a", {0}}, {"b", {1}}, {"a", {0}}},
           {{"a", {half, half}}},
           {{"a", {half, half, half, half}}},
           {{"a", {largest}}},
           {{"a", {largest, 2}}},
           {{"a", {std::int64_t{1} << 62}}, {"b", {std::int64_t{1} << 62}}},
           {{"a", {largest - 1000}}, {"b", {1}}}}) {
    CAPTURE(params.size());
    CAPTURE(params[0].shape.size());
    CHECK(code_of(params) == ErrorCode::invalid_argument);
  }
  // Each of these fits into 2^58, and all of them together into no int64.
  std::vector<ParamSpec> many;
  for (int i = 0; i < 40; ++i) many.push_back({"p" + std::to_string(i), {std::int64_t{1} << 58}});
  CHECK(code_of(many) == ErrorCode::invalid_argument);
  // Names that differ only in case or in a blank are different; an empty tensor never overflows.
  CHECK(FlatLayout({{"a", {1}}, {"A", {1}}, {"a ", {1}}}).numel() == 3);
  CHECK(FlatLayout({{"a", {half, half, 0, half}}}).numel() == 0);
}

}  // namespace flat_layout_test
