// Any bytes as a safetensors file. A violated invariant ends the process, which the fuzzer records.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/safetensors_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zeroproof::tests::safetensors_accepts(
      std::as_bytes(zeroproof::Span<const std::uint8_t>(data, size)));
  return 0;
}
