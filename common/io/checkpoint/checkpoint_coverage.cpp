#include "common/io/checkpoint/checkpoint_coverage.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // first, numel

/// Elements that pieces have of a tensor's columns from `offset` on.
struct Column {
  std::int64_t row_numel, row_stride;
  Ranges ranges;
};
using Columns = std::map<std::int64_t, Column>;  // by offset

template <class Entry>
std::string named_twice(const char* what, const std::vector<Entry>& entries) {
  std::set<std::string_view> names;
  for (const Entry& entry : entries) {
    if (!names.insert(entry.name).second)
      return std::string("has ") + what + " twice: " + shown_name(entry.name);
  }
  return "";
}

/// Columns are side by side, and the pieces in each are consecutive. "" if so.
const char* problem_of(Columns& columns, std::int64_t count) {
  const std::int64_t row_stride = columns.begin()->second.row_stride;
  std::int64_t next_column = 0;
  for (auto& [offset, column] : columns) {
    if (column.row_stride != row_stride || count % row_stride != 0) return " in pieces that cross";
    if (offset != next_column) return offset < next_column ? " twice" : " not whole";
    next_column += column.row_numel;
    std::sort(column.ranges.begin(), column.ranges.end());
    std::int64_t next = 0;
    for (const auto& [first, length] : column.ranges) {
      if (first != next) return first < next ? " twice" : " not whole";
      next += length;
    }
    if (next != count / row_stride * column.row_numel) return " not whole";
  }
  return next_column == row_stride ? "" : " not whole";
}

}  // namespace

std::string coverage_problem(const CheckpointManifest& manifest) {
  if (std::string twice = named_twice("a tensor", manifest.tensors); !twice.empty()) return twice;
  if (std::string twice = named_twice("a file", manifest.files); !twice.empty()) return twice;
  std::map<std::string, std::map<std::int64_t, Columns>> of_states;  // by tensor
  for (const CheckpointPiece& piece : manifest.pieces) {
    Column& column = of_states[piece.state][piece.tensor]
                         .try_emplace(piece.offset, Column{piece.row_numel, piece.row_stride, {}})
                         .first->second;
    if (column.row_numel != piece.row_numel || column.row_stride != piece.row_stride)
      return "has pieces of a tensor that cross each other";
    column.ranges.emplace_back(piece.first, piece.numel);
  }
  const auto tensor_of = [&](std::int64_t tensor) -> const CheckpointTensor& {
    return manifest.tensors[tensor];
  };
  std::vector<std::int64_t> not_empty;
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    if (numel(manifest.tensors[t]) > 0) not_empty.push_back(static_cast<std::int64_t>(t));
  }
  for (auto& [state, of_tensors] : of_states) {
    const auto said = [&, &name = state](std::int64_t tensor, const char* how) {
      return "has " + name + " of tensor " + shown_name(tensor_of(tensor).name) + how;
    };
    for (auto& [tensor, columns] : of_tensors) {
      const char* const how = problem_of(columns, numel_of(state, tensor_of(tensor)));
      if (*how != '\0') return said(tensor, how);
    }
    // Pieces have elements, so a tensor with pieces is not empty.
    if (of_tensors.size() == not_empty.size()) continue;
    for (const std::int64_t tensor : not_empty) {
      if (of_tensors.count(tensor) == 0) return said(tensor, " not whole");
    }
  }
  return "";
}

}  // namespace zeroproof
