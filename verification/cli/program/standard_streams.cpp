#include "verification/cli/program/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

bool is_closed(int descriptor) { return ::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF; }

}  // namespace

void require_standard_streams() {
  const bool no_output = is_closed(STDOUT_FILENO);
  // open() returns the lowest free number, and the lower ones are now in use.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (is_closed(descriptor)) static_cast<void>(::open("/dev/null", O_RDWR));
  }
  ZP_CHECK(!no_output, ErrorCode::io, "standard output is closed", "the results would be lost",
           "leave it open, or redirect it to a file or to /dev/null");
}

void flush_standard_output() {
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  ZP_CHECK(flushed && std::ferror(stdout) == 0, ErrorCode::io,
           std::string("standard output could not be written: ") +
               (flushed ? "some of it was lost" : std::strerror(reason)),
           "the results are lost", "free some space at its destination, and run again");
}

}  // namespace zeroproof::verification
