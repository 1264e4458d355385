#include "common/io/safetensors/safetensors_writer.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_header.hpp"

namespace zeroproof {

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     const std::vector<SafeTensorSpec>& tensors,
                                     SafeMetadata metadata, const SafetensorsLimits& limits)
    : header_(plan_safetensors(tensors, std::move(metadata), limits)),
      file_(path),
      written_(header_.tensors.size(), 0) {
  const std::string text = safetensors_header_text(header_);
  ZP_CHECK(static_cast<std::int64_t>(text.size()) <=
               std::min(limits.header_bytes, largest_safetensors_header),
           ErrorCode::invalid_argument,
           path + " would have a header of " + std::to_string(text.size()) + " bytes",
           "readers would reject the file", "split it into several with fewer tensors");
  const std::uint64_t length = text.size();
  file_.write(0, std::as_bytes(Span<const std::uint64_t>(&length, 1)));
  file_.write(8, std::as_bytes(Span<const char>(text)));
}

void SafetensorsWriter::write(std::string_view tensor_name, Span<const std::byte> bytes) {
  const auto at = std::lower_bound(header_.by_name.begin(), header_.by_name.end(), tensor_name,
                                   [&](std::uint32_t index, std::string_view text) {
                                     return header_.tensors[index].name < text;
                                   });
  ZP_CHECK(!finished_ && at != header_.by_name.end() && header_.tensors[*at].name == tensor_name,
           ErrorCode::invalid_argument,
           file_.path() + ": tensor " + shown_name(tensor_name) +
               (finished_ ? " is written too late" : " is not planned"),
           "the header is written first", "list every tensor in the constructor");
  const SafeTensor& tensor = header_.tensors[*at];
  std::int64_t& written = written_[at - header_.by_name.begin()];
  const auto count = static_cast<std::int64_t>(bytes.size());
  ZP_CHECK(count <= tensor.num_bytes() - written, ErrorCode::invalid_argument,
           file_.path() + ": tensor " + shown_name(tensor_name) + " gets " +
               std::to_string(written + count) + " bytes but has " +
               std::to_string(tensor.num_bytes()),
           "its neighbour would be overwritten", "write exactly the bytes of its shape");
  file_.write(header_.data_begin + tensor.begin + written, bytes);
  written += count;
}

void SafetensorsWriter::finish() {
  ZP_CHECK(!finished_, ErrorCode::invalid_argument, file_.path() + " is finished twice",
           "nothing is left to write", "finish it once");
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const SafeTensor& tensor = header_.tensors[header_.by_name[i]];
    ZP_CHECK(written_[i] == tensor.num_bytes(), ErrorCode::invalid_argument,
             file_.path() + ": tensor " + shown_name(tensor.name) + " got " +
                 std::to_string(written_[i]) + " of " + std::to_string(tensor.num_bytes()) +
                 " bytes",
             "the rest would be zeros", "write every tensor completely");
  }
  file_.commit();
  finished_ = true;
}

}  // namespace zeroproof
