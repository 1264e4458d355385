#include "verification/cli/program/out_of_memory.hpp"

#include <cstdio>

namespace zeroproof::verification {
namespace {

thread_local const char* purpose = "the run";

}  // namespace

MemoryPurpose::MemoryPurpose(const char* what) : before_(purpose) { purpose = what; }
MemoryPurpose::~MemoryPurpose() { purpose = before_; }
const char* MemoryPurpose::current() { return purpose; }

OutOfMemory::OutOfMemory(std::size_t num_bytes) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "no memory for %zu bytes of %s (this machine has no more, or a limit is set); "
                "run fewer cases at once with --jobs, or on a larger machine",
                num_bytes, purpose);
}

}  // namespace zeroproof::verification
