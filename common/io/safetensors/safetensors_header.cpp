#include "common/io/safetensors/safetensors_header.hpp"

#include <algorithm>
#include <tuple>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_sax.hpp"

namespace zeroproof {
namespace {

[[noreturn]] void refuse(const std::string& label, const std::string& problem,
                         const std::string& why) {
  fail(ErrorCode::io, label + ": " + problem, why, "write the file again");
}

struct LongestTokens {
  std::size_t text = 0;  ///< between quotes
  std::size_t bare = 0;  ///< of characters that could belong to a number or word
};

LongestTokens longest_tokens(std::string_view text) {
  constexpr std::string_view separators = " \t\r\n,:[]{}";
  LongestTokens longest;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"' || (!inside && separators.find(text[i]) != std::string_view::npos)) {
      std::size_t& kind = inside ? longest.text : longest.bare;
      kind = std::max(kind, i - begin);
      begin = i + 1;
      inside = text[i] == '"' && !inside;
    }
  }
  std::size_t& kind = inside ? longest.text : longest.bare;
  kind = std::max(kind, text.size() - std::min(begin, text.size()));
  return longest;
}

/// Rejects texts that a JSON parser would accept, or report unclearly.
void check_text(std::string_view text, const std::string& label, const SafetensorsLimits& limits) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    refuse(label, "the header begins with a byte order mark", "the format has none");
  }
  if (text.empty() || text.front() != '{') {
    refuse(label, "the header does not begin with '{'",
           "it is one JSON object and nothing before it");
  }
  // the JSON library treats a NUL as the end of its input and would ignore the rest.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    refuse(label, "byte " + std::to_string(nul + 8) + " is NUL, inside the header",
           "JSON has no such byte");
  }
  const std::size_t last = text.find_last_not_of(' ');
  if (text[last] != '}') {
    refuse(label, "the header does not end with '}'", "only spaces may follow the object");
  }
  const LongestTokens longest = longest_tokens(text);
  if (longest.text > static_cast<std::size_t>(limits.text_bytes)) {
    refuse(label,
           "the header has a text of " + std::to_string(longest.text) + " bytes, more than " +
               std::to_string(limits.text_bytes),
           "it would be held several times");
  }
  if (longest.bare > 64) {
    refuse(label,
           "the header has a number or word of " + std::to_string(longest.bare) + " characters",
           "no valid number or word is that long");
  }
}

/// Sorts by position and checks that the tensors fill the data.
void check_places(SafetensorsHeader& header, const std::string& label) {
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::int64_t filled = 0;
  const std::string* before = nullptr;
  for (const SafeTensor& tensor : header.tensors) {
    if (tensor.begin < filled) {
      refuse(label,
             "tensors " + shown_name(*before) + " and " + shown_name(tensor.name) + " overlap at " +
                 std::to_string(tensor.begin),
             "every byte belongs to one tensor");
    }
    if (tensor.begin > filled) {
      refuse(label,
             "no tensor has the data bytes " + std::to_string(filled) + " to " +
                 std::to_string(tensor.begin) + ", before " + shown_name(tensor.name),
             "a gap can hide data");
    }
    if (tensor.num_bytes() > 0 &&
        (header.data_begin + tensor.begin) % num_bytes(tensor.dtype) != 0) {
      refuse(label,
             "tensor " + shown_name(tensor.name) + " begins at byte " +
                 std::to_string(header.data_begin + tensor.begin) + ", not a multiple of its " +
                 std::to_string(num_bytes(tensor.dtype)) + "-byte elements",
             "programs that map the file would read misaligned numbers");
    }
    filled = tensor.end;
    before = &tensor.name;
  }
  if (filled < header.data_bytes) {
    refuse(label, std::to_string(header.data_bytes - filled) + " bytes follow the last tensor",
           "trailing bytes can hide data");
  }
  if (filled > header.data_bytes) {
    refuse(label,
           "the last tensor ends at data byte " + std::to_string(filled) + " but the file has " +
               std::to_string(header.data_bytes),
           "it was truncated");
  }
}

}  // namespace

std::optional<std::int64_t> safetensors_numel(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    empty = empty || dim == 0;
    if (dim == 0) continue;
    if (product > most / dim) return std::nullopt;
    product *= dim;
  }
  return empty ? 0 : product;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& label,
                                           const SafetensorsLimits& limits) {
  check_text(text, label, limits);
  SafetensorsHeader header;
  header.data_begin = static_cast<std::int64_t>(8 + text.size());
  header.data_bytes = static_cast<std::int64_t>(data_bytes);
  SafetensorsSax sax(label, limits, header);
  nlohmann::ordered_json::sax_parse(text, &sax);
  check_places(header, label);
  if (const std::string* twice = header.index_names()) {
    refuse(label, "the tensor name " + shown_name(*twice) + " appears twice",
           "readers would disagree about which one is valid");
  }
  return header;
}

}  // namespace zeroproof
