// What a program has that was built without nccl.h. That it links is half of the test: beside no_nccl.cpp the linker
// takes the real file for whatever is missing there, and then has everything else twice.

#include <doctest.h>

#include "common/base/error.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_memory.hpp"

using namespace zeroproof;

TEST_CASE("without nccl.h: every way to NCCL says in one sentence what is missing") {
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
