#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace host_elementary_test {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE(
    "host: elementary functions have the bits of the reference on every instruction set, any "
    "number of threads, in place") {
  ElementaryExpFn* const functions[][2] = {
      {host::elementary_exp, reference::elementary_exp},
      {host::elementary_tanh, reference::elementary_tanh},
      {host::elementary_sigmoid, reference::elementary_sigmoid},
      {host::elementary_erf, reference::elementary_erf},
      {host::elementary_log, reference::elementary_log}};
  std::vector<float> x(70001), three(3), four(4);
  device_test::fill(Span<float>(x), 3);
  for (const auto& [function, of_reference] : functions) {
    std::vector<float> expected(x.size());
    of_reference({}, x, expected);
    for (const Exec& exec : every_exec()) {
      std::vector<float> y = x;
      function(exec, y, y);
      std::int64_t differ = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        differ += device_test::same(y[i], expected[i]) ? 0 : 1;
      CHECK(differ == 0);
      refused([&] { function(exec, three, four); });
    }
  }
}

}  // namespace host_elementary_test
