#pragma once
// Exposed buffers by name, for comparisons of the two sides of a rank.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/compare/judge/making_order.hpp"

namespace zeroproof::verification {

/// Orders buffers as they are made.
struct CausesFirst {
  bool operator()(BufferId a, BufferId b) const { return making_place(a) < making_place(b); }
};
using NamedBuffers = std::map<BufferId, ExposedBuffer, CausesFirst>;

/// View of a scalar.
template <class T>
T read(const NamedBuffers& buffers, BufferId id) {
  T value;
  std::memcpy(&value, buffers.at(id).view.data, sizeof(T));
  return value;
}

/// Whether `test` is true for an element of a buffer of values.
template <class T, class Test>
bool any_of(const NamedBuffers& buffers, BufferId id, const Test& test) {
  const TensorView& view = buffers.at(id).view;
  const auto* values = static_cast<const T*>(view.data);
  return std::any_of(values, values + view.numel, test);
}

inline NamedBuffers by_id(std::vector<ExposedBuffer> buffers) {
  NamedBuffers map;
  for (ExposedBuffer& buffer : buffers) {
    const BufferId id = buffer.id;
    const bool first = map.emplace(id, std::move(buffer)).second;
    ZP_CHECK(first, ErrorCode::internal, std::string(name(id)) + " is exposed twice in one phase",
             "only one of the two would be compared", "expose every buffer once");
  }
  return map;
}

}  // namespace zeroproof::verification
