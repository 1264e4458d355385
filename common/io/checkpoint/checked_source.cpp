#include "common/io/checkpoint/checked_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof {

CheckedSource::CheckedSource(Disk& disk, int folder, const std::string& where, FileRecord record,
                             std::shared_ptr<ChunkCache> chunks)
    : ByteSource(where + "/" + record.name, static_cast<std::uint64_t>(record.num_bytes)),
      disk_(disk),
      record_(std::move(record)),
      file_(disk, disk.open(folder, record_.name.c_str())),
      chunks_(std::move(chunks)) {
  // Missing, a link or a socket: the checkpoint is damaged. Any other error may be temporary, and
  // the file may be read later.
  const bool lacking = errno == ENOENT || errno == ELOOP || errno == ENXIO;
  ZP_CHECK(file_.is_open(), lacking ? ErrorCode::damaged : ErrorCode::io,
           label() + " cannot be opened: " + std::strerror(errno),
           "a checkpoint needs all of its files", take_another);
  struct stat status {};
  ZP_CHECK(::fstat(file_.handle(), &status) == 0 && S_ISREG(status.st_mode), ErrorCode::damaged,
           label() + " is not a regular file", "a checkpoint consists of regular files only",
           take_another);
  ZP_CHECK(status.st_size == record_.num_bytes, ErrorCode::damaged,
           label() + " has " + std::to_string(status.st_size) + " bytes, and " +
               std::to_string(record_.num_bytes) + " were written",
           "it was truncated, or belongs to another checkpoint", take_another);
}

void CheckedSource::load(std::int64_t chunk, std::vector<std::byte>& bytes) const {
  const std::int64_t begin = chunk * chunk_bytes;
  bytes.resize(std::min(chunk_bytes, record_.num_bytes - begin));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = disk_.read(file_.handle(), bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(begin + static_cast<std::int64_t>(done)));
    ZP_CHECK(count > 0, ErrorCode::io,
             label() + " cannot be read at byte " +
                 std::to_string(begin + static_cast<std::int64_t>(done)) + ": " +
                 (count < 0 ? std::strerror(errno) : "it became shorter"),
             "a checkpoint needs all of its files", take_another);
    done += static_cast<std::size_t>(count);
  }
  ZP_CHECK(
      raw_digest(bytes.data(), static_cast<std::int64_t>(bytes.size())) == record_.chunks[chunk],
      ErrorCode::damaged,
      label() + " is damaged in chunk " + std::to_string(chunk) + " (bytes " +
          std::to_string(begin) + " to " +
          std::to_string(begin + static_cast<std::int64_t>(bytes.size()) - 1) + ")",
      "its hash differs from the one in the manifest", take_another);
}

void CheckedSource::read(std::uint64_t offset, Span<std::byte> target) const {
  ZP_CHECK(offset <= size() && target.size() <= size() - offset, ErrorCode::invalid_argument,
           label() + " is read behind its end", "it has no such bytes", "read within its size");
  auto at = static_cast<std::int64_t>(offset);
  while (!target.empty()) {
    const std::int64_t chunk = at / chunk_bytes, inside = at % chunk_bytes;
    std::size_t count = 0;
    chunks_->use(
        this, chunk, [&](std::vector<std::byte>& bytes) { load(chunk, bytes); },
        [&](Span<const std::byte> bytes) {
          count = std::min(target.size(), bytes.size() - static_cast<std::size_t>(inside));
          std::copy_n(bytes.begin() + inside, count, target.begin());
        });
    target = target.subspan(count);
    at += static_cast<std::int64_t>(count);
  }
}

}  // namespace zeroproof
