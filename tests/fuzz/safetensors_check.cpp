#include "tests/fuzz/safetensors_check.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "tests/fuzz/promise.hpp"

namespace zeroproof::tests {
namespace {

/// Element count computed independently of the reader: doubles are exact for all valid shapes.
void check_shape(const SafeTensor& tensor) {
  double bytes = static_cast<double>(num_bytes(tensor.dtype));
  bool empty = false;
  for (const std::int64_t dim : tensor.shape) {
    promise(dim >= 0, "dimensions are not negative");
    empty = empty || dim == 0;
    if (dim > 0) bytes *= static_cast<double>(dim);
    promise(bytes <= 0x1p56, "shapes do not overflow");
  }
  promise((empty ? 0.0 : bytes) == static_cast<double>(tensor.num_bytes()),
          "shape and bytes agree");
}

void check_tensors(const SafetensorsReader& reader, Span<const std::byte> bytes) {
  const SafetensorsHeader& header = reader.header();
  std::int64_t filled = 0;
  for (const SafeTensor& tensor : header.tensors) {
    promise(tensor.begin == filled && tensor.end >= tensor.begin, "tensors follow one another");
    filled = tensor.end;
    check_shape(tensor);
    promise(safetensors_name_problem(tensor.name).empty(), "names can be printed");
    promise(reader.find(tensor.name) == &tensor,
            "every tensor is found by its name, and so only once");
    const std::byte* expected = bytes.data() + header.data_begin + tensor.begin;
    promise(tensor.num_bytes() == 0 ||
                (header.data_begin + tensor.begin) % num_bytes(tensor.dtype) == 0,
            "tensors are aligned");
    std::int64_t seen = 0;
    reader.for_each_chunk(
        tensor,
        [&](Span<const std::byte> chunk) {
          promise(std::memcmp(chunk.data(), expected + seen, chunk.size()) == 0,
                  "data are the file's");
          seen += static_cast<std::int64_t>(chunk.size());
        },
        64);
    promise(seen == tensor.num_bytes(), "all of a tensor is read");
  }
  promise(header.data_begin + filled == static_cast<std::int64_t>(bytes.size()), "no byte remains");
}

/// A parsed header, written again, is parsed the same way.
void check_round_trip(const SafetensorsHeader& header) {
  // Behind a header of another length modulo 8, tensors of wider elements may be unaligned.
  const bool movable =
      std::all_of(header.tensors.begin(), header.tensors.end(), [](const SafeTensor& tensor) {
        return num_bytes(tensor.dtype) == 1 || tensor.num_bytes() == 0;
      });
  if (header.data_begin % 8 != 0 && !movable) return;
  const std::string text = safetensors_header_text(header);
  const SafetensorsHeader again =
      parse_safetensors_header(text, static_cast<std::uint64_t>(header.data_bytes), "round trip");
  promise(again.metadata == header.metadata, "metadata survive a round trip");
  promise(again.tensors.size() == header.tensors.size(),
          "the number of tensors survives a round trip");
  for (std::size_t i = 0; i < again.tensors.size(); ++i) {
    const SafeTensor& a = again.tensors[i];
    const SafeTensor& b = header.tensors[i];
    promise(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin &&
                a.end == b.end,
            "tensors survive a round trip");
  }
}

}  // namespace

bool safetensors_accepts(Span<const std::byte> bytes, std::string* refusal) {
  try {
    const SafetensorsReader reader = SafetensorsReader::from_memory(bytes, "memory");
    check_tensors(reader, bytes);
    check_round_trip(reader.header());
    return true;
  } catch (const Error& error) {
    promise(error.code() == ErrorCode::io, "errors have the code io");
    promise_sentence(error);
    if (refusal != nullptr) *refusal = error.what();
    return false;
  }
}

}  // namespace zeroproof::tests
