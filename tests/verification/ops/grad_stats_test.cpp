// Statistics of tensors (R14) against the oracle: segments of any lengths in any order, on any number of ranks and
// threads.

#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/base/philox.hpp"
#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_norm_cases.hpp"

namespace grad_stats_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// All tensors in one buffer, separated by numbers that must not count.
struct Buffer {
  std::vector<float> grad;
  std::vector<GradSegment> tensors;
};

Buffer make_buffer(const DataFamily& family) {
  Buffer buffer;
  for (const auto& tensor : make_tensors(family)) {
    buffer.tensors.push_back(
        {std::ssize(buffer.grad), std::ssize(tensor), std::ssize(buffer.tensors)});
    buffer.grad.insert(buffer.grad.end(), tensor.begin(), tensor.end());
    buffer.grad.insert(buffer.grad.end(), buffer.tensors.size() % 5, from_bits(0x7F800000));
  }
  return buffer;
}

/// Random pieces of the tensors, some of them empty, in random order.
std::vector<GradSegment> make_pieces(const std::vector<GradSegment>& tensors,
                                     std::uint32_t stream) {
  const Philox philox(29, stream);
  std::uint64_t next = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(
        philox.below(next++, static_cast<std::uint64_t>(std::max<std::int64_t>(bound, 1))));
  };
  const std::int64_t longest = stream == 0 ? INT64_MAX : 1 + below(20000);
  std::vector<GradSegment> pieces;
  for (const GradSegment& tensor : tensors) {
    for (std::int64_t done = 0; done < tensor.numel;) {
      const std::int64_t left = tensor.numel - done;
      const std::int64_t numel = stream == 0 ? left : std::min(left, below(longest));
      pieces.push_back({tensor.begin + done, numel, tensor.tensor});
      done += numel;
    }
  }
  for (std::size_t i = pieces.size(); i > 1; --i) {
    std::swap(pieces[i - 1], pieces[below(static_cast<std::int64_t>(i))]);
  }
  return pieces;
}

GradStats expected(const float* grad, std::int64_t numel) {
  const auto count = static_cast<std::size_t>(numel);
  return {oracle_max_bits(grad, count, 0), oracle_count_nonfinite(grad, count),
          oracle_count_zeros(grad, count)};
}

/// The pieces distributed over `ranks` ranks, whose integers are added.
std::vector<GradStats> over_ranks(const Implementation& implementation, const Exec& exec,
                                  const Buffer& buffer, const std::vector<GradSegment>& pieces,
                                  std::size_t ranks) {
  std::vector<GradStats> all(buffer.tensors.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<GradSegment> own;
    for (std::size_t i = rank; i < pieces.size(); i += ranks) own.push_back(pieces[i]);
    std::vector<GradStats> stats(all.size());
    implementation.grad_stats(exec, buffer.grad, own, stats);
    for (std::size_t t = 0; t < all.size(); ++t) {
      all[t].amax = std::max(all[t].amax, stats[t].amax);
      all[t].num_nonfinite += stats[t].num_nonfinite;
      all[t].num_zeros += stats[t].num_zeros;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("grad_stats: boundaries, orders, ranks and threads") {
  for (const DataFamily& family : data_families) {
    const Buffer buffer = make_buffer(family);
    std::vector<GradStats> want;
    for (const GradSegment& tensor : buffer.tensors) {
      want.push_back(expected(buffer.grad.data() + tensor.begin, tensor.numel));
    }
    for (std::uint32_t cut = 0; cut < 4; ++cut) {
      const std::vector<GradSegment> pieces = make_pieces(buffer.tensors, cut);
      for (const Implementation& implementation :
           implementations_with(&Implementation::grad_stats)) {
        CAPTURE(family.name);
        CAPTURE(cut);
        CAPTURE(implementation.name);
        Exec exec = implementation.exec;
        exec.num_threads = cut % 2 == 0 ? 3 : 1;
        CHECK(over_ranks(implementation, exec, buffer, pieces, 1 + cut) == want);
      }
    }
  }
}

TEST_CASE("grad_stats: every numel up to 200 at every offset, any float") {
  for (const Implementation& implementation : implementations_with(&Implementation::grad_stats)) {
    std::int64_t differ = 0;
    std::vector<float> storage(200 + 33 + 1);
    for (std::int64_t numel = 0; numel <= 200; ++numel) {
      const std::int64_t offset = numel % 33;
      for (std::size_t i = 0; i < storage.size(); ++i) {
        const std::uint32_t word = random_word(static_cast<std::uint64_t>(numel) * 1200 + i, 9);
        // A quarter each: any bits, a zero, infinity and NaN, the neighbours of zero and of infinity.
        const std::uint32_t few[] = {word, 0, 0x7F800000U + word % 2,
                                     (word & 8U) != 0 ? 1U : 0x7F7FFFFFU};
        storage[i] = from_bits(few[word >> 4 & 3U] | (word & 0x80000000U));
      }
      const std::vector<GradSegment> segment = {{offset, numel, 0}};
      std::vector<GradStats> stats(1);
      implementation.grad_stats(implementation.exec, storage, segment, stats);
      differ += !(stats.front() == expected(storage.data() + offset, numel));
    }
    CHECK_MESSAGE(differ == 0, implementation.name);
  }
}

}  // namespace grad_stats_test
