// R17: an element's result does not depend on its place in a buffer, on its neighbours, or on the
// thread.

#include <doctest.h>

#include "oracle_format_operations.hpp"
#include "oracle_fused_operations.hpp"
#include "oracle_stream.hpp"
#include "oracle_update_operations.hpp"

namespace positions_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& group : {update_operations(), simple_operations(), narrow_operations(),
                            widen_operations(), fused_operations(), format_operations()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace

TEST_CASE("positions: offsets, lengths, in place, neighbours untouched") {
  for (const Operation& op : all_operations()) positions(op);
}

TEST_CASE("positions: threads 1, 2, 3") {
  for (const Operation& op : all_operations()) thread_counts(op);
}

TEST_CASE("positions: tree over 1 to 40 leaves") {
  constexpr std::int64_t numel = 300;
  const std::vector<Implementation> implementations =
      implementations_with(&Implementation::grad_sum);
  std::vector<std::vector<float>> leaves;
  std::vector<Span<const float>> views;
  std::vector<const float*> pointers;
  std::int64_t differ = 0;
  for (std::uint64_t count = 1; count <= 40; ++count) {
    std::vector<float>& leaf = leaves.emplace_back(numel);
    // -0 in the first elements, where +0 as a filler would show
    for (std::size_t i = 0; i < leaf.size(); ++i) {
      const Family family = i % 2 == 0 ? Family::training : Family::near_subnormal;
      leaf[i] = i < 10 ? -0.0F : make_element(family, count * 1000 + i)[0];
    }
    views.emplace_back(leaf);
    pointers.push_back(leaf.data());
    std::vector<float> scratch(count), expected(numel), actual(numel);
    oracle_tree(pointers.data(), pointers.size(), scratch.data(), expected.data(), expected.size());
    for (const Implementation& implementation : implementations) {
      for (int threads : {1, 2, 3}) {
        Exec exec = implementation.exec;
        exec.num_threads = threads;
        std::ranges::fill(actual, 7.0F);
        implementation.grad_sum(exec, views, actual);
        differ += std::memcmp(expected.data(), actual.data(), sizeof(float) * numel) != 0;
      }
    }
  }
  std::printf("elementwise tree: 40 trees x %zu implementations, %lld differ\n",
              3 * implementations.size(), static_cast<long long>(differ));
  CHECK(differ == 0);
}

}  // namespace positions_test
