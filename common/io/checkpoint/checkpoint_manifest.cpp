#include "common/io/checkpoint/checkpoint_manifest.hpp"

#include <limits>
#include <optional>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "common/io/checkpoint/checkpoint_coverage.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {
namespace {

constexpr std::string_view before_hash = "{\"hash\":\"";
constexpr std::string_view before_body = "\",\"manifest\":";
constexpr std::string_view after_body = "}\n";
constexpr std::size_t hash_digits = 32;
constexpr const char* format = "zeroproof-checkpoint";
constexpr std::int64_t version = 1;
constexpr std::int64_t most_elements = std::int64_t{1} << 53;

Digest digest_of(std::string_view text) {
  return raw_digest(text.data(), static_cast<std::int64_t>(text.size()));
}

std::optional<Digest> parse_digest(std::string_view hex) {
  if (hex.size() != hash_digits) return std::nullopt;
  Digest digest;
  for (std::size_t i = 0; i < hash_digits; ++i) {
    const char c = hex[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return std::nullopt;
    std::uint64_t& half = i < hash_digits / 2 ? digest.high : digest.low;
    half = half << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return digest;
}

/// Reads one manifest; errors name the problem.
class ManifestReader {
 public:
  explicit ManifestReader(const std::string& label) : label_(label) {}

  CheckpointManifest read(std::string_view text);
  CheckpointPiece piece_of(const Json& entry) const;
  FileRecord file_of(const Json& entry) const;
  void check_counters(const Json& state) const;

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail(ErrorCode::damaged, label_ + " " + problem,
         "a checkpoint must be exactly as it was written",
         "take another checkpoint (zeroproof checkpoint inspect lists them)");
  }
  void require(bool holds, const char* problem) const {
    if (!holds) refuse(problem);
  }

  const Json& member(const Json& object, const char* key) const {
    if (!object.contains(key)) refuse(std::string("has an entry without \"") + key + '"');
    return object.at(key);
  }
  std::int64_t whole(const Json& object, const char* key, std::int64_t least,
                     std::int64_t most) const {
    const Json& value = member(object, key);
    const bool is_unsigned = value.kind() == Json::Kind::unsigned_integer;
    if (!is_unsigned && value.kind() != Json::Kind::integer) not_a("an integer", key, value);
    const bool in_range =
        is_unsigned ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                          value.get<std::int64_t>() >= least
                    : value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
    if (!in_range)
      refuse(std::string("has a \"") + key + "\" of " + value.dump() + ", out of range " +
             std::to_string(least) + " to " + std::to_string(most));
    return value.get<std::int64_t>();
  }
  [[noreturn]] void not_a(const char* kind, const char* key, const Json& value) const {
    refuse(std::string("has a \"") + key + "\" that is not " + kind + ": " +
           sentence(value.dump()));
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (value.kind() != Json::Kind::text) not_a("a text", key, value);
    return value.get<std::string>();
  }
  const Json& list(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (value.kind() != Json::Kind::array) not_a("a list", key, value);
    return value;
  }

  std::string_view body_of(std::string_view text) const;
  void check_about(const Json& about) const;
  void read_tensor(const Json& entry);
  void read_file(const Json& entry);
  void read_piece(const Json& entry);
  const std::string& label_;
  CheckpointManifest manifest_;
};

std::string_view ManifestReader::body_of(std::string_view text) const {
  const std::size_t body_begin = before_hash.size() + hash_digits + before_body.size();
  require(text.size() >= body_begin + after_body.size() &&
              text.substr(0, before_hash.size()) == before_hash &&
              text.substr(before_hash.size() + hash_digits, before_body.size()) == before_body &&
              text.substr(text.size() - after_body.size()) == after_body,
          "is not a checkpoint manifest, or is truncated");
  const std::string_view body =
      text.substr(body_begin, text.size() - body_begin - after_body.size());
  require(!body.empty() && body.front() == '{', "is not a checkpoint manifest");
  const auto hash = parse_digest(text.substr(before_hash.size(), hash_digits));
  require(hash && *hash == digest_of(body), "does not have the hash that it contains");
  return body;
}

/// The description of a training and its counters, as far as they are there. Other members have no
/// meaning.
void ManifestReader::check_about(const Json& about) const {
  if (about.kind() != Json::Kind::object) not_a("an object", "about", about);
  for (const char* key : {"workload", "recipe", "dtype", "settings", "text", "text_file",
                          "gradients", "place", "log"}) {
    if (about.contains(key)) static_cast<void>(text(about, key));
  }
  if (about.contains("state")) check_counters(about.at("state"));
}

/// counters_json() (common/checkpoint/checkpoint_state.hpp).
void ManifestReader::check_counters(const Json& state) const {
  constexpr std::int64_t most_count = std::int64_t{1} << 53;
  constexpr std::int64_t most_exponent = 1074;  // of a double
  constexpr std::int64_t most_tracked = std::numeric_limits<std::int32_t>::max();
  if (state.kind() != Json::Kind::object) not_a("an object", "state", state);
  whole(state, "applied_steps", 0, most_count);
  whole(state, "log2_scale", -most_exponent, most_exponent);
  whole(state, "growth_tracker", 0, most_tracked - 1);
  whole(state, "hysteresis_left", 0, most_tracked);
  for (const Json& count : list(state, "tensor_steps")) {
    Json one = Json::object();
    one["tensor_steps"] = count;
    whole(one, "tensor_steps", 0, most_count);
  }
  for (const char* key : {"param_scale", "amax_history"}) {
    if (!state.contains(key)) continue;
    const std::string words = text(state, key);
    if (words.size() % 8 != 0 || words.find_first_not_of("0123456789abcdef") != std::string::npos)
      refuse(std::string("has a \"") + key +
             "\" that is not a list of words of eight hexadecimal digits");
  }
}

void ManifestReader::read_tensor(const Json& entry) {
  CheckpointTensor tensor;
  tensor.name = text(entry, "name");
  require(safetensors_name_problem(tensor.name).empty(), "has a tensor with an invalid name");
  std::int64_t count = 1;
  for (const Json& dimension : list(entry, "shape")) {
    Json one = Json::object();
    one["shape"] = dimension;
    const std::int64_t length = whole(one, "shape", 0, most_elements);
    require(length == 0 || count <= most_elements / length, "has a tensor that is too large");
    count *= length;
    tensor.shape.push_back(length);
  }
  tensor.begin = whole(entry, "begin", 0, most_elements);
  manifest_.tensors.push_back(std::move(tensor));
}

void ManifestReader::read_file(const Json& entry) { manifest_.files.push_back(file_of(entry)); }

FileRecord ManifestReader::file_of(const Json& entry) const {
  FileRecord file;
  file.name = text(entry, "name");
  require(is_checkpoint_file_name(file.name) && file.name != manifest_name,
          "has a file with an invalid name");
  file.num_bytes = whole(entry, "bytes", 0, std::numeric_limits<std::int64_t>::max() - chunk_bytes);
  for (const Json& chunk : list(entry, "chunks")) {
    const auto digest = parse_digest(chunk.get<std::string>());
    require(digest.has_value(), "has a chunk with an invalid hash");
    file.chunks.push_back(*digest);
  }
  require(static_cast<std::int64_t>(file.chunks.size()) ==
              (file.num_bytes + chunk_bytes - 1) / chunk_bytes,
          "has a file with more or fewer chunks than its bytes have");
  return file;
}

CheckpointPiece ManifestReader::piece_of(const Json& entry) const {
  CheckpointPiece piece;
  piece.state = text(entry, "state");
  require(is_checkpoint_file_name(piece.state), "has a state buffer with an invalid name");
  piece.tensor = whole(entry, "tensor", 0, most_elements);
  piece.file = whole(entry, "file", 0, most_elements);
  piece.first = whole(entry, "first", 0, most_elements);
  piece.numel = whole(entry, "numel", 1, most_elements);
  piece.row_numel = whole(entry, "row_numel", 1, most_elements);
  piece.row_stride = whole(entry, "row_stride", piece.row_numel, most_elements);
  piece.offset = whole(entry, "offset", 0, piece.row_stride - piece.row_numel);
  return piece;
}

void ManifestReader::read_piece(const Json& entry) {
  CheckpointPiece piece = piece_of(entry);
  require(piece.tensor < static_cast<std::int64_t>(manifest_.tensors.size()) &&
              piece.file < static_cast<std::int64_t>(manifest_.files.size()),
          "has a piece of a tensor or a file that is not listed");
  const std::int64_t count = numel_of(piece.state, manifest_.tensors[piece.tensor]);
  require(piece.row_stride <= count && piece.first <= count && piece.numel <= count - piece.first,
          "has a piece that exceeds its tensor");
  manifest_.pieces.push_back(std::move(piece));
}

CheckpointManifest ManifestReader::read(std::string_view text) try {
  const Json body = Json::parse(body_of(text));
  require(this->text(body, "format") == format, "is of another format");
  const std::int64_t written = whole(body, "version", 1, std::numeric_limits<std::int32_t>::max());
  ZP_CHECK(written <= version, ErrorCode::unavailable,
           label_ + " is of version " + std::to_string(written) +
               ", and this program reads up to " + std::to_string(version),
           "later versions may have another meaning",
           "read it with the program that wrote it, or a later one");
  manifest_.contract = this->text(body, "contract");
  manifest_.run = this->text(body, "run");
  require(parse_digest(manifest_.run).has_value(), "has no valid run");
  manifest_.step = whole(body, "step", 0, std::numeric_limits<std::int64_t>::max());
  manifest_.about = member(body, "about");
  check_about(manifest_.about);
  for (const Json& entry : list(body, "tensors")) read_tensor(entry);
  for (const Json& entry : list(body, "files")) read_file(entry);
  for (const Json& entry : list(body, "pieces")) read_piece(entry);
  if (const std::string problem = coverage_problem(manifest_); !problem.empty()) refuse(problem);
  return std::move(manifest_);
} catch (const JsonError& error) {
  refuse(std::string("is not readable: ") + error.what());
}

Json to_json(const CheckpointTensor& tensor) {
  return {{"name", tensor.name}, {"shape", Json(tensor.shape)}, {"begin", tensor.begin}};
}

Json to_json(const FileRecord& file) {
  Json chunks = Json::array();
  for (const Digest& chunk : file.chunks) chunks.push_back(to_hex(chunk));
  return {{"name", file.name}, {"bytes", file.num_bytes}, {"chunks", chunks}};
}

/// Member by member: there may be as many pieces as tensors times ranks times states.
Json to_json(const CheckpointPiece& piece) {
  Json json = Json::object();
  json["state"] = piece.state;
  json["tensor"] = piece.tensor;
  json["file"] = piece.file;
  json["first"] = piece.first;
  json["numel"] = piece.numel;
  json["row_numel"] = piece.row_numel;
  json["row_stride"] = piece.row_stride;
  json["offset"] = piece.offset;
  return json;
}

template <class Entry>
Json list_of(const std::vector<Entry>& entries) {
  Json list = Json::array();
  for (const Entry& entry : entries) list.push_back(to_json(entry));
  return list;
}

}  // namespace

std::int64_t numel(const CheckpointTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t length : tensor.shape) count *= length;
  return count;
}

bool is_scale_name(const std::string& state) {
  constexpr std::string_view ending = "_scale";
  return state.size() > ending.size() &&
         std::string_view(state).substr(state.size() - ending.size()) == ending;
}

std::int64_t numel_of(const std::string& state, const CheckpointTensor& tensor) {
  const std::int64_t elements = numel(tensor);
  return is_scale_name(state) ? (elements + scale_block_numel - 1) / scale_block_numel : elements;
}

std::string CheckpointManifest::piece_name(const CheckpointPiece& piece) const {
  const CheckpointTensor& of = tensors[piece.tensor];
  const std::string name = piece.state + "." + of.name;
  return piece.numel == numel_of(piece.state, of) ? name
                                                  : name + "@" + std::to_string(piece.element(0));
}

std::string manifest_text(const CheckpointManifest& manifest) {
  Json body = Json::object();
  body["format"] = format;
  body["version"] = version;
  body["contract"] = manifest.contract;
  body["run"] = manifest.run;
  body["step"] = manifest.step;
  body["about"] = manifest.about;
  body["tensors"] = list_of(manifest.tensors);
  body["files"] = list_of(manifest.files);
  body["pieces"] = list_of(manifest.pieces);
  const std::string text = body.dump();
  return std::string(before_hash) + to_hex(digest_of(text)) + std::string(before_body) + text +
         std::string(after_body);
}

Json part_json(const FileRecord& file, const std::vector<CheckpointPiece>& pieces) {
  return {{"file", to_json(file)}, {"pieces", list_of(pieces)}};
}

void read_part(const Json& part, FileRecord& file, std::vector<CheckpointPiece>& pieces) {
  const std::string label = "the report of another rank";
  const ManifestReader reader(label);
  file = reader.file_of(part.at("file"));
  for (const Json& piece : part.at("pieces")) pieces.push_back(reader.piece_of(piece));
}

CheckpointManifest parse_manifest(std::string_view text, const std::string& label) {
  return ManifestReader(label).read(text);
}

void require_counters(const Json& state, const std::string& label) {
  ManifestReader(label).check_counters(state);
}

}  // namespace zeroproof
