// Any bytes as a manifest, and as the part between its hash and its end. A violated invariant ends
// the process, which the fuzzer records.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/checkpoint_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text[0] == '{')
    zeroproof::tests::manifest_accepts(zeroproof::tests::with_hash(text));
  zeroproof::tests::manifest_accepts(text);
  return 0;
}
