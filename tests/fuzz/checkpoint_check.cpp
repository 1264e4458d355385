#include "tests/fuzz/checkpoint_check.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "common/base/digest.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "tests/fuzz/promise.hpp"

namespace zeroproof::tests {
namespace {

/// One folder of files, all of them in memory.
class MemoryDisk final : public Disk {
 public:
  explicit MemoryDisk(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  int open_root(const char*) override { return new_handle(""); }
  int open_folder(int, const char*) override { return new_handle(""); }
  int open(int, const char* name) override {
    const auto found = files_.find(name);
    if (found == files_.end()) {
      errno = ENOENT;
      return -1;
    }
    return new_handle(found->second);
  }
  std::optional<std::vector<std::string>> list(int) override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) names.push_back(name);
    return names;
  }

 private:
  static int new_handle(const std::string& bytes) {
    const int handle = ::memfd_create("checkpoint", MFD_CLOEXEC);
    // A missing file is an error of the test, not of the reader.
    if (handle < 0 ||
        ::write(handle, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
    return handle;
  }

  std::map<std::string, std::string> files_;
};

/// The body with the actual sizes and hashes of its files; unchanged if it is not such JSON.
std::string with_records(const std::string& body, const std::vector<std::string>& files) try {
  const Json before = Json::parse(body);
  if (!before.contains("files")) return body;
  Json records = Json::array();
  std::size_t at = 0;
  for (const Json& entry : before.at("files")) {
    Json record = entry;
    if (at < files.size() && record.kind() == Json::Kind::object) {
      const std::string& bytes = files[at];
      Json chunks = Json::array();
      for (std::size_t begin = 0; begin < bytes.size();
           begin += static_cast<std::size_t>(chunk_bytes)) {
        const std::size_t count =
            std::min(bytes.size() - begin, static_cast<std::size_t>(chunk_bytes));
        chunks.push_back(
            to_hex(raw_digest(bytes.data() + begin, static_cast<std::int64_t>(count))));
      }
      record["bytes"] = bytes.size();
      record["chunks"] = chunks;
    }
    records.push_back(record);
    ++at;
  }
  Json after = before;
  after["files"] = records;
  return after.dump();
} catch (const JsonError&) {
  return body;
}

/// A tensor of a state, assembled from the files' bytes without the reader.
std::vector<float> assembled(const CheckpointManifest& manifest,
                             const std::vector<std::string>& files, const std::string& state,
                             std::size_t tensor) {
  std::vector<float> values(numel(manifest.tensors[tensor]), -7.0F);
  for (const CheckpointPiece& piece : manifest.pieces) {
    if (piece.state != state || piece.tensor != static_cast<std::int64_t>(tensor)) continue;
    const std::string& name = manifest.files[piece.file].name;
    const auto rank = static_cast<std::size_t>(std::atoi(name.c_str() + std::strlen("rank-")));
    const std::string& bytes = files.at(rank);
    const SafetensorsReader reader =
        SafetensorsReader::from_memory(std::as_bytes(Span<const char>(bytes)), "memory");
    const SafeTensor* const stored = reader.find(manifest.piece_name(piece));
    promise(stored != nullptr, "pieces are at the positions of the manifest");
    for (std::int64_t e = 0; e < piece.numel; ++e)
      std::memcpy(&values.at(piece.element(e)),
                  bytes.data() + reader.header().data_begin + stored->begin + e * 4, 4);
  }
  return values;
}

void check_values(const CheckpointReader& reader, const std::vector<std::string>& files) {
  const CheckpointManifest& manifest = reader.manifest();
  std::map<std::string, int> states;
  for (const CheckpointPiece& piece : manifest.pieces) ++states[piece.state];
  promise(!reader.has("no such state"), "no state exists outside of the manifest");
  for (const auto& [state, pieces] : states) {
    promise(reader.has(state), "states of the manifest exist");
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const std::vector<float> expected = assembled(manifest, files, state, t);
      // The whole tensor, and a range inside of it.
      for (const std::size_t begin : {std::size_t{0}, expected.size() / 3}) {
        std::vector<float> got((begin == 0 ? expected.size() : expected.size() * 2 / 3) - begin);
        reader.read(state, static_cast<std::int64_t>(t), static_cast<std::int64_t>(begin), got);
        promise(
            got.empty() || std::memcmp(got.data(), expected.data() + begin, got.size() * 4) == 0,
            "elements are the files'");
      }
    }
  }
}

}  // namespace

CheckpointBytes unpack_checkpoint(Span<const std::byte> bytes) {
  CheckpointBytes checkpoint;
  const auto flags = bytes.empty() ? 3U : std::to_integer<unsigned>(bytes[0]);
  checkpoint.hash = (flags & 1U) != 0;
  checkpoint.records = (flags & 2U) != 0;
  std::vector<std::string> parts;
  for (std::size_t at = 1; at + 2 <= bytes.size() && parts.size() < 5;) {
    const std::size_t length =
        std::to_integer<std::size_t>(bytes[at]) | std::to_integer<std::size_t>(bytes[at + 1]) << 8;
    at += 2;
    const std::size_t count = std::min(length, bytes.size() - at);
    parts.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, count);
    at += count;
  }
  if (!parts.empty()) {
    checkpoint.body = parts.front();
    checkpoint.files.assign(parts.begin() + 1, parts.end());
  }
  return checkpoint;
}

std::string pack_checkpoint(const CheckpointBytes& checkpoint) {
  std::string packed(1,
                     static_cast<char>((checkpoint.hash ? 1 : 0) | (checkpoint.records ? 2 : 0)));
  const auto add = [&](const std::string& part) {
    packed += static_cast<char>(part.size() & 255U);
    packed += static_cast<char>(part.size() >> 8);
    packed += part;
  };
  add(checkpoint.body);
  for (const std::string& file : checkpoint.files) add(file);
  return packed;
}

bool checkpoint_accepts(Span<const std::byte> bytes) {
  const CheckpointBytes checkpoint = unpack_checkpoint(bytes);
  const std::string body =
      checkpoint.records ? with_records(checkpoint.body, checkpoint.files) : checkpoint.body;
  std::map<std::string, std::string> files{
      {manifest_name, checkpoint.hash ? with_hash(body) : body}};
  for (std::size_t i = 0; i < checkpoint.files.size(); ++i)
    files[rank_file_name(static_cast<int>(i))] = checkpoint.files[i];
  MemoryDisk disk(std::move(files));
  try {
    const CheckpointReader reader(CheckpointRoot("memory", disk), 0, disk);
    reader.verify();
    check_values(reader, checkpoint.files);
    return true;
  } catch (const Error& error) {
    promise(error.code() == ErrorCode::damaged || error.code() == ErrorCode::io ||
                error.code() == ErrorCode::unavailable,
            "rejected files are damaged, unreadable or of a later version");
    promise_sentence(error);
    return false;
  }
}

}  // namespace zeroproof::tests
