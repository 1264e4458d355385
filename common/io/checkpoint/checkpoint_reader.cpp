#include "common/io/checkpoint/checkpoint_reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checked_source.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t most_manifest_bytes = std::int64_t{1} << 30;

std::string read_manifest(Disk& disk, int folder, const std::string& label) {
  const OpenFile file(disk, disk.open(folder, manifest_name));
  ZP_CHECK(file.is_open(), ErrorCode::damaged, label + " cannot be opened: " + std::strerror(errno),
           "a folder without a manifest is not a checkpoint", take_another);
  struct stat status {};
  ZP_CHECK(::fstat(file.handle(), &status) == 0 && S_ISREG(status.st_mode), ErrorCode::damaged,
           label + " is not a regular file", "a checkpoint consists of regular files only",
           take_another);
  ZP_CHECK(status.st_size <= most_manifest_bytes, ErrorCode::damaged,
           label + " is larger than 1 GiB", "a manifest is smaller", take_another);
  std::string text(status.st_size, '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count =
        disk.read(file.handle(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    ZP_CHECK(count > 0, ErrorCode::io,
             label + " cannot be read: " + (count < 0 ? std::strerror(errno) : "it became shorter"),
             "a folder without a manifest is not a checkpoint", take_another);
    done += static_cast<std::size_t>(count);
  }
  return text;
}

CheckpointManifest load_manifest(Disk& disk, int folder, const std::string& label) try {
  return parse_manifest(read_manifest(disk, folder, label), label);
} catch (const std::bad_alloc&) {
  fail(ErrorCode::unavailable, label + " needs more memory than available",
       "it lists every piece of the state", "end other programs, or take another checkpoint");
}

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointRoot& root, std::int64_t step, Disk& disk)
    : label_(root.path() + "/" + checkpoint_name(step)), folder_(root.open(step)) {
  guarded([&] { open_files(step, disk); });
}

bool CheckpointReader::is_there() const {
  struct stat opened {};
  struct stat now {};
  return ::fstat(folder_.handle(), &opened) != 0 ||
         (::stat(label_.c_str(), &now) == 0 && now.st_dev == opened.st_dev &&
          now.st_ino == opened.st_ino);
}

template <class Read>
void CheckpointReader::guarded(const Read& read) const try {
  read();
} catch (const Error& error) {
  if (error.code() != ErrorCode::damaged || is_there()) throw;
  fail(ErrorCode::io, label_ + " was removed while it was read",
       "a run keeps its newest checkpoints", "take a newer one");
}

void CheckpointReader::open_files(std::int64_t step, Disk& disk) {
  const std::string manifest_label = label_ + "/" + manifest_name;
  manifest_ = load_manifest(disk, folder_.handle(), manifest_label);
  ZP_CHECK(manifest_.step == step, ErrorCode::damaged,
           manifest_label + " belongs to step " + std::to_string(manifest_.step),
           "the folder was renamed or the manifest replaced", take_another);

  const auto names = disk.list(folder_.handle());
  ZP_CHECK(names.has_value(), ErrorCode::io, label_ + " cannot be read: " + std::strerror(errno),
           "its files cannot be listed", take_another);
  for (const std::string& name : *names) {
    const bool belongs = name == manifest_name ||
                         std::any_of(manifest_.files.begin(), manifest_.files.end(),
                                     [&](const FileRecord& file) { return file.name == name; });
    ZP_CHECK(belongs, ErrorCode::damaged,
             label_ + "/" + shown_name(name) + " does not belong to the checkpoint",
             "it was added later, or belongs to another checkpoint",
             "remove it, or use another checkpoint");
  }
  const auto chunks = std::make_shared<ChunkCache>();
  for (const FileRecord& file : manifest_.files) {
    SafetensorsLimits limits;
    limits.header_bytes = largest_safetensors_header;
    files_.push_back(SafetensorsReader::from_source(
        std::make_unique<CheckedSource>(disk, folder_.handle(), label_, file, chunks), limits));
  }
  std::vector<std::int64_t> bytes(files_.size(), 0);
  for (std::size_t i = 0; i < manifest_.pieces.size(); ++i) {
    const CheckpointPiece& piece = manifest_.pieces[i];
    bytes[piece.file] += stored(piece).num_bytes();
    pieces_[piece.state][piece.tensor].push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    ZP_CHECK(bytes[i] == files_[i].header().data_bytes, ErrorCode::damaged,
             files_[i].label() + " has tensors that the manifest does not list",
             "they may belong to another checkpoint", take_another);
  }
}

const SafeTensor& CheckpointReader::stored(const CheckpointPiece& piece) const {
  const SafetensorsReader& file = files_[piece.file];
  const std::string name = manifest_.piece_name(piece);
  const SafeTensor* const tensor = file.find(name);
  ZP_CHECK(tensor != nullptr && tensor->dtype == SafeDType::f32 && tensor->numel() == piece.numel,
           ErrorCode::damaged,
           file.label() + " has no tensor " + shown_name(name) + " of " +
               std::to_string(piece.numel) + " fp32 elements",
           "the manifest lists it", take_another);
  return *tensor;
}

std::int64_t CheckpointReader::num_bytes() const {
  std::int64_t bytes = 0;
  for (const FileRecord& file : manifest_.files) bytes += file.num_bytes;
  return bytes;
}

void CheckpointReader::verify(const std::function<void(std::int64_t)>& progress) const {
  guarded([&] {
    for (const SafetensorsReader& file : files_) {
      for (const SafeTensor& tensor : file.header().tensors) {
        file.for_each_chunk(tensor, [&](Span<const std::byte> bytes) {
          if (progress) progress(static_cast<std::int64_t>(bytes.size()));
        });
      }
    }
  });
}

bool CheckpointReader::has(const std::string& state) const { return pieces_.count(state) != 0; }

void CheckpointReader::read(const std::string& state, std::int64_t tensor, std::int64_t first,
                            Span<float> target) const {
  const auto found = pieces_.find(state);
  ZP_CHECK(found != pieces_.end() && tensor >= 0 &&
               tensor < static_cast<std::int64_t>(manifest_.tensors.size()),
           ErrorCode::invalid_argument,
           label_ + " has no " + state + " of tensor " + std::to_string(tensor),
           "the manifest does not list it", "use a state that the manifest lists");
  const auto count = static_cast<std::int64_t>(target.size());
  const std::int64_t whole = numel_of(state, manifest_.tensors[tensor]);
  ZP_CHECK(first >= 0 && first <= whole && count <= whole - first, ErrorCode::invalid_argument,
           label_ + " is read behind the end of a tensor", "it has no such elements",
           "use a range inside of the tensor");
  const auto of_tensor = found->second.find(tensor);
  if (of_tensor == found->second.end()) return;  // it is empty
  for (const std::int64_t index : of_tensor->second) {
    const CheckpointPiece& piece = manifest_.pieces[index];
    const SafeTensor& from = stored(piece);
    // Row by row: the part of the piece's row within [first, first + count).
    const std::int64_t last = piece.first + piece.numel;
    const std::int64_t rows_before =
        std::max<std::int64_t>(0, first - piece.offset - piece.row_numel + 1);
    for (std::int64_t row = std::max(piece.first / piece.row_numel, rows_before / piece.row_stride);
         row * piece.row_numel < last && piece.offset + row * piece.row_stride < first + count;
         ++row) {
      const std::int64_t row_begin = piece.offset + row * piece.row_stride;
      const std::int64_t begin =
          std::max({first, row_begin, row_begin + piece.first - row * piece.row_numel});
      const std::int64_t end = std::min(
          {first + count, row_begin + piece.row_numel, row_begin + last - row * piece.row_numel});
      if (begin >= end) continue;
      const std::int64_t in_piece = row * piece.row_numel + (begin - row_begin) - piece.first;
      guarded([&] {
        files_[piece.file].read(from, in_piece * 4,
                                std::as_writable_bytes(target.subspan(begin - first, end - begin)));
      });
    }
  }
}

}  // namespace zeroproof
