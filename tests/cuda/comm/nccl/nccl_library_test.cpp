// Files that are loaded as NCCL, and files that are refused. Uses the real one if the machine has
// it; without a GPU it reports its version and an error.

#include <doctest.h>

#include <cstdlib>
#include <string>

#include "common/comm/self.hpp"
#include "tests/cuda/comm/nccl/nccl_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/skip.hpp"

namespace nccl_library_test {

using namespace zeroproof;
using namespace zeroproof::nccl_test;
using cuda::NcclLibrary;
using tests::expect_error;

namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// An environment variable that is set while this exists.
class SetVariable {
 public:
  SetVariable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~SetVariable() { ::unsetenv(name_); }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("nccl library: the fake one is loaded") {
  CHECK(fake().path() == ZP_FAKE_NCCL_LIBRARY);
  CHECK(fake().version() == "2.28.9");
  CHECK(fake().missing().empty());
}

TEST_CASE("nccl library: a missing file, and a file that is no library") {
  for (const char* path : {"/nowhere/libnccl.so.2", "/dev/null"}) {
    expect_error(ErrorCode::unavailable, [&] { NcclLibrary library(path); });
    contains(message_of([&] { NcclLibrary library(path); }),
             std::string("NCCL could not be loaded from ") + path);
  }
}

TEST_CASE("nccl library: one that lacks functions names them") {
  expect_error(ErrorCode::unavailable, [] { NcclLibrary library(ZP_INCOMPLETE_NCCL_LIBRARY); });
  const std::string text = message_of([] { NcclLibrary library(ZP_INCOMPLETE_NCCL_LIBRARY); });
  contains(text, std::string(ZP_INCOMPLETE_NCCL_LIBRARY) + " lacks ");
  contains(text, "ncclCommGetAsyncError");
  CHECK(text.find("ncclGetVersion") == std::string::npos);
}

TEST_CASE("nccl library: another major version is refused, another minor one is not") {
  {
    const UsePlan plan("version=3.1.0");
    expect_error(ErrorCode::unavailable, [] { NcclLibrary library(ZP_FAKE_NCCL_LIBRARY); });
    contains(message_of([] { NcclLibrary library(ZP_FAKE_NCCL_LIBRARY); }),
             "is NCCL 3.1.0 (this program was built for");
  }
  const UsePlan plan("version=2.19.3");
  CHECK(NcclLibrary(ZP_FAKE_NCCL_LIBRARY).version() == "2.19.3");
}

TEST_CASE("nccl library: ZP_NCCL_LIBRARY names the only file that is tried") {
  {
    const SetVariable named("ZP_NCCL_LIBRARY", ZP_FAKE_NCCL_LIBRARY);
    CHECK(cuda::find_nccl()->path() == ZP_FAKE_NCCL_LIBRARY);
  }
  const SetVariable named("ZP_NCCL_LIBRARY", "/nowhere/libnccl.so");
  contains(message_of([] { cuda::find_nccl(); }),
           "NCCL could not be loaded from /nowhere/libnccl.so");
}

TEST_CASE("nccl library: the library of the process is searched once, and described") {
  const std::string text = cuda::describe_nccl();
  CAPTURE(text);
  const bool found = text.rfind("NCCL 2.", 0) == 0;
  CHECK((found || text.rfind("no NCCL: ", 0) == 0));
  if (found) CHECK(&cuda::shared_nccl() == &cuda::shared_nccl());
  if (!found) expect_error(ErrorCode::unavailable, [] { cuda::shared_nccl(); });
  CHECK(cuda::describe_nccl() == text);
}

/// It cannot use streams of the simulated device; without a driver it fails before it would.
TEST_CASE("nccl library: the real one reports the missing driver") {
  std::unique_ptr<NcclLibrary> library;
  try {
    library = cuda::find_nccl();
  } catch (const Error& error) {
    return tests::skip_case(error.what());
  }
  CHECK(library->version().rfind("2.", 0) == 0);
  if (::access("/dev/nvidiactl", F_OK) == 0) return tests::skip_case("there is a driver");
  const auto self = make_self_communicator();
  expect_error(ErrorCode::unavailable, [&] { cuda::make_nccl_communicator(*self, *library); });
}

}  // namespace nccl_library_test
