// A program built without nccl.h. Successful linking is half of the test: for a symbol missing in
// no_nccl.cpp the linker would take the real file, and then find all others twice.

#include <doctest.h>

#include "common/base/error.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_memory.hpp"

namespace without_nccl_test {

using namespace zeroproof;

TEST_CASE("without nccl.h: every use of NCCL reports that it is missing") {
  const auto refused = [](const auto& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.code() == ErrorCode::unavailable &&
             std::string(error.what()).find("built without nccl.h") != std::string::npos;
    }
    return false;
  };
  CHECK(refused([] { cuda::find_nccl(); }));
  CHECK(refused([] { cuda::shared_nccl(); }));
  CHECK(refused([] { const cuda::NcclLibrary library("libnccl.so.2"); }));
  CHECK(cuda::describe_nccl() == "no NCCL: this program was built without nccl.h");
}

}  // namespace without_nccl_test
