#include "verification/interfaces/python/src/extension/digests.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"

namespace zeroproof::python {
namespace {

/// 16 of the 32 digits: differing bytes agree in them with probability 2^-64.
std::string short_hex(const Digest& digest) { return to_hex(digest).substr(0, 16); }

const std::byte* memory_at(std::uint64_t address) {
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address));
}

std::string memory_digest(std::uint64_t address, std::int64_t num_bytes) {
  return short_hex(raw_digest(memory_at(address), num_bytes));
}

struct Dimension {
  std::int64_t size, step;  // in bytes
};

void append(const std::byte* from, const std::vector<Dimension>& dimensions, std::size_t depth,
            std::int64_t run, std::vector<std::byte>& to) {
  if (depth == dimensions.size()) {
    to.insert(to.end(), from, from + run);
    return;
  }
  const Dimension& one = dimensions[depth];
  for (std::int64_t i = 0; i < one.size; ++i)
    append(from + i * one.step, dimensions, depth + 1, run, to);
}

/// Elements in the order of their addresses, repeated ones once: a transposed array has the digest
/// of its memory.
std::string strided_digest(std::uint64_t address, std::int64_t item_size,
                           const std::vector<std::int64_t>& sizes,
                           const std::vector<std::int64_t>& strides) {
  ZP_CHECK(sizes.size() == strides.size(), ErrorCode::invalid_argument,
           "an array has " + std::to_string(sizes.size()) + " sizes and " +
               std::to_string(strides.size()) + " strides",
           "every dimension has one of each", "pass those of one array");
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return memory_digest(address, 0);
    if (sizes[i] > 1 && strides[i] != 0) dimensions.push_back({sizes[i], strides[i] * item_size});
  }
  std::ranges::stable_sort(dimensions, std::greater<>(), &Dimension::step);
  std::int64_t run = item_size;
  while (!dimensions.empty() && dimensions.back().step == run) {
    run *= dimensions.back().size;
    dimensions.pop_back();
  }
  if (dimensions.empty()) return memory_digest(address, run);
  std::vector<std::byte> gathered;
  std::int64_t total = run;
  for (const Dimension& one : dimensions) total *= one.size;
  gathered.reserve(static_cast<std::size_t>(total));
  append(memory_at(address), dimensions, 0, run, gathered);
  return short_hex(raw_digest(gathered.data(), total));
}

}  // namespace

void bind_digests(py::Module& module) {
  module.def<&memory_digest>("memory_digest", {"address", "num_bytes"});
  module.def<&strided_digest>("strided_digest", {"address", "item_size", "sizes", "strides"});
}

}  // namespace zeroproof::python
