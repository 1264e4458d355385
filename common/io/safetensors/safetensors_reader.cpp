#include "common/io/safetensors/safetensors_reader.hpp"

#include <algorithm>
#include <bit>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_header.hpp"

namespace zeroproof {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little endian, and bytes are passed on");

constexpr std::uint64_t length_bytes = 8;

/// Length of the header, checked against file and limit.
std::size_t header_length(const ByteSource& source, const SafetensorsLimits& limits) {
  const std::string& label = source.label();
  ZP_CHECK(source.size() >= length_bytes, ErrorCode::io,
           label + " has " + std::to_string(source.size()) + " bytes",
           "a safetensors file begins with the 8-byte length of its header",
           "use a safetensors file");
  std::uint64_t length = 0;
  source.read(0, std::as_writable_bytes(Span<std::uint64_t>(&length, 1)));
  const auto most =
      static_cast<std::uint64_t>(std::min(limits.header_bytes, largest_safetensors_header));
  ZP_CHECK(length >= 2, ErrorCode::io,
           label + ": the header is " + std::to_string(length) + " bytes long",
           "even an empty JSON object has two", "write the file again");
  ZP_CHECK(length <= source.size() - length_bytes, ErrorCode::io,
           label + ": the header would be " + std::to_string(length) +
               " bytes long but the file has only " + std::to_string(source.size() - length_bytes) +
               " more",
           "the file was truncated, or is not a safetensors file", "copy or write it again");
  ZP_CHECK(length <= most, ErrorCode::io,
           label + ": the header is " + std::to_string(length) + " bytes long, more than " +
               std::to_string(most),
           "it is loaded into memory", "split the file into several with fewer tensors");
  return static_cast<std::size_t>(length);
}

SafetensorsHeader read_header(const ByteSource& source, const SafetensorsLimits& limits) {
  std::string text(header_length(source, limits), '\0');
  source.read(length_bytes, std::as_writable_bytes(Span<char>(text)));
  return parse_safetensors_header(text, source.size() - length_bytes - text.size(), source.label(),
                                  limits);
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::unique_ptr<ByteSource> source,
                                     const SafetensorsLimits& limits)
    : source_(std::move(source)), header_(read_header(*source_, limits)) {}

SafetensorsReader SafetensorsReader::open(const std::string& path,
                                          const SafetensorsLimits& limits) {
  return {open_file_source(path), limits};
}

SafetensorsReader SafetensorsReader::from_memory(Span<const std::byte> bytes,
                                                 const std::string& label,
                                                 const SafetensorsLimits& limits) {
  return {memory_source(bytes, label), limits};
}

SafetensorsReader SafetensorsReader::from_source(std::unique_ptr<ByteSource> source,
                                                 const SafetensorsLimits& limits) {
  return {std::move(source), limits};
}

void SafetensorsReader::read(const SafeTensor& tensor, std::int64_t first_byte,
                             Span<std::byte> target) const {
  const std::int64_t count = static_cast<std::int64_t>(target.size());
  ZP_CHECK(first_byte >= 0 && first_byte <= tensor.num_bytes() &&
               count <= tensor.num_bytes() - first_byte,
           ErrorCode::invalid_argument,
           label() + ": " + std::to_string(count) + " bytes from " + std::to_string(first_byte) +
               " were requested of tensor " + shown_name(tensor.name) + ", which has " +
               std::to_string(tensor.num_bytes()),
           "its neighbour's bytes would be returned", "use a range inside of it");
  source_->read(static_cast<std::uint64_t>(header_.data_begin + tensor.begin + first_byte), target);
}

void SafetensorsReader::for_each_chunk(const SafeTensor& tensor,
                                       const std::function<void(Span<const std::byte>)>& use,
                                       std::int64_t chunk_bytes) const {
  const std::int64_t width = num_bytes(tensor.dtype);
  const std::int64_t whole = std::max(width, chunk_bytes / width * width);
  std::vector<std::byte> chunk(std::min(whole, tensor.num_bytes()));
  for (std::int64_t first = 0; first < tensor.num_bytes(); first += whole) {
    const auto count = static_cast<std::size_t>(std::min(whole, tensor.num_bytes() - first));
    const Span<std::byte> piece = Span<std::byte>(chunk).first(count);
    read(tensor, first, piece);
    use(piece);
  }
}

}  // namespace zeroproof
