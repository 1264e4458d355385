// Any bytes as a file of rules. A violated invariant ends the process, which the fuzzer records.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/quantization_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  zeroproof::tests::quantization_accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
