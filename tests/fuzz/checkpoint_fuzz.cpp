// Any bytes as the files of a checkpoint. A violated invariant ends the process, which the fuzzer
// records.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/checkpoint_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zeroproof::tests::checkpoint_accepts(
      std::as_bytes(zeroproof::Span<const std::uint8_t>(data, size)));
  return 0;
}
