#include "common/io/checkpoint/checkpoint_root.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"

namespace zeroproof {
namespace {

constexpr const char* untouched = "earlier checkpoints are untouched";

std::string latest_text(std::int64_t step) {
  const std::string name = checkpoint_name(step);
  return name + " " + to_hex(raw_digest(name.data(), static_cast<std::int64_t>(name.size()))) +
         "\n";
}

/// Content of a short file; nothing if it cannot be read, or is longer.
std::optional<std::string> read_short(Disk& disk, int folder, const char* name) {
  const OpenFile file(disk, disk.open(folder, name));
  char text[257];
  const ssize_t count = file.is_open() ? disk.read(file.handle(), text, sizeof text, 0) : -1;
  if (count < static_cast<ssize_t>(sizeof text)) {
    if (count < 0) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(count));
  }
  errno = EFBIG;
  return std::nullopt;
}

/// Makes the entry of a new folder durable: before, it may be lost after a loss of power.
void sync_parent(const std::string& path, Disk& disk) {
  const std::string parent =
      std::filesystem::absolute(path).lexically_normal().parent_path().string();
  const OpenFile folder(disk, disk.open_root(parent.c_str()));
  ZP_CHECK(folder.is_open() && disk.sync(folder.handle()) == 0, ErrorCode::io,
           parent + " did not reach the disk: " + std::strerror(errno),
           path + " was just created in it, and might be lost after a loss of power",
           "check the disk");
}

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on " + host;
}

/// Content of another process's lock, as far as it is printable.
std::string holder(int handle) {
  char text[300];
  const ssize_t count = ::pread(handle, text, sizeof text, 0);
  std::string name(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }),
             name.end());
  return name.empty() ? "another process" : name;
}

}  // namespace

CheckpointRoot::CheckpointRoot(const std::string& path, Disk& disk)
    : disk_(disk), path_(path), root_(disk, disk.open_root(path.c_str())) {
  ZP_CHECK(root_.is_open(), ErrorCode::io, path + " cannot be opened: " + std::strerror(errno),
           "checkpoints are kept in a folder", "use the folder of a run's --checkpoint option");
}

CheckpointRoot CheckpointRoot::lock(const std::string& path, Disk& disk) {
  const bool made = ::mkdir(path.c_str(), 0777) == 0;
  ZP_CHECK(made || errno == EEXIST, ErrorCode::io,
           path + " cannot be created: " + std::strerror(errno), "checkpoints are kept in a folder",
           "use one whose parent exists and is writable");
  if (made) sync_parent(path, disk);
  CheckpointRoot root(path, disk);
  constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  root.lock_ = OpenFile(disk, ::openat(root.root_.handle(), lock_name, flags, 0666));
  ZP_CHECK(root.lock_.is_open(), ErrorCode::io,
           path + "/" + lock_name + " cannot be created: " + std::strerror(errno),
           "two runs that save in one folder would remove each other's checkpoints",
           "use a writable folder");
  const int handle = root.lock_.handle();
  ZP_CHECK(
      ::flock(handle, LOCK_EX | LOCK_NB) == 0, ErrorCode::io,
      path + (errno == EWOULDBLOCK ? " belongs to " + holder(handle)
                                   : std::string(" cannot be locked: ") + std::strerror(errno)),
      "two runs that save in one folder would remove each other's checkpoints",
      "use another folder, or wait for that run to end");
  const std::string self = this_process();
  ZP_CHECK(::ftruncate(handle, 0) == 0 &&
               ::pwrite(handle, self.data(), self.size(), 0) == static_cast<ssize_t>(self.size()),
           ErrorCode::io, path + "/" + lock_name + " cannot be written: " + std::strerror(errno),
           "other runs could not name the owner of the folder",
           "check the free space and the disk");
  root.sweep();
  return root;
}

std::vector<std::int64_t> CheckpointRoot::steps() const {
  const auto names = disk_.list(root_.handle());
  ZP_CHECK(names.has_value(), ErrorCode::io, path_ + " cannot be read: " + std::strerror(errno),
           "its checkpoints cannot be listed", "check the folder and the disk");
  std::vector<std::int64_t> steps;
  for (const std::string& name : *names) {
    if (const auto step = parse_checkpoint_name(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::int64_t> CheckpointRoot::latest() const {
  const auto text = read_short(disk_, root_.handle(), latest_name);
  if (!text && errno == ENOENT) return std::nullopt;
  const auto step = text ? parse_checkpoint_name(text->substr(0, text->find(' '))) : std::nullopt;
  ZP_CHECK(step && *text == latest_text(*step), ErrorCode::damaged,
           path_ + "/" + latest_name + " has an invalid content",
           "it was changed after it was written",
           "run zeroproof checkpoint verify; the next save writes it again");
  return step;
}

OpenFile CheckpointRoot::open(std::int64_t step) const {
  const std::string name = checkpoint_name(step);
  OpenFile folder(disk_, disk_.open_folder(root_.handle(), name.c_str()));
  const bool other = errno == ENOTDIR || errno == ELOOP;
  ZP_CHECK(folder.is_open(), other ? ErrorCode::damaged : ErrorCode::io,
           path_ + "/" + name + " cannot be opened: " + std::strerror(errno),
           "a checkpoint is a folder, not a link to one",
           "zeroproof checkpoint inspect lists all checkpoints");
  return folder;
}

UnfinishedCheckpoint CheckpointRoot::begin(std::int64_t step) const {
  const std::string name = unfinished_name(step, make_nonce());
  ZP_CHECK(disk_.make_folder(root_.handle(), name.c_str()) == 0, ErrorCode::io,
           path_ + "/" + name + " cannot be created: " + std::strerror(errno),
           "a checkpoint is written in this folder first",
           std::string("check the folder and the disk; ") + untouched);
  return join(step, name);
}

UnfinishedCheckpoint CheckpointRoot::join(std::int64_t step, const std::string& name) const {
  OpenFile folder(disk_, disk_.open_folder(root_.handle(), name.c_str()));
  ZP_CHECK(folder.is_open(), ErrorCode::io,
           path_ + "/" + name + " cannot be opened: " + std::strerror(errno),
           "every rank writes its own part of a checkpoint into it",
           "give all ranks a folder that is the same one on their hosts");
  return {step, name, path_ + "/" + name, std::move(folder)};
}

void CheckpointRoot::sync_root() const {
  ZP_CHECK(disk_.sync(root_.handle()) == 0, ErrorCode::io,
           path_ + " did not reach the disk: " + std::strerror(errno),
           "a loss of power might undo the last change",
           "check the disk; existing checkpoints are complete");
}

void CheckpointRoot::commit(UnfinishedCheckpoint& checkpoint) const {
  const std::string name = checkpoint_name(checkpoint.step);
  ZP_CHECK(disk_.sync(checkpoint.folder.handle()) == 0, ErrorCode::io,
           checkpoint.label + " did not reach the disk: " + std::strerror(errno),
           "its files might have no names after a loss of power",
           std::string("check the disk; ") + untouched);
  // The newest one must not be replaced by two moves: two folders of one name are exchanged in one
  // call.
  bool replaced = false;
  if (OpenFile(disk_, disk_.open_folder(root_.handle(), name.c_str())).is_open()) {
    replaced = disk_.exchange(root_.handle(), checkpoint.name.c_str(), name.c_str()) == 0;
    ZP_CHECK(replaced, ErrorCode::io,
             path_ + "/" + name + " cannot be replaced in one step: " + std::strerror(errno),
             "between two steps there would be no checkpoint of this name",
             std::string("save into another folder; ") + untouched);
  } else {
    ZP_CHECK(disk_.rename(root_.handle(), checkpoint.name.c_str(), name.c_str()) == 0,
             ErrorCode::io,
             checkpoint.label + " cannot be renamed to " + name + ": " + std::strerror(errno),
             "it is complete, but has the name of an unfinished checkpoint",
             std::string("remove the file or folder of that name; ") + untouched);
  }
  sync_root();
  if (replaced) remove_unfinished(checkpoint.name);
  write_latest(checkpoint.step);
}

void CheckpointRoot::write_latest(std::int64_t step) const {
  const std::string temporary = std::string(".") + latest_name + ".tmp-" + make_nonce();
  try {
    CheckpointFile file(disk_, root_.handle(), path_, temporary);
    file.write(std::as_bytes(Span<const char>(latest_text(step))));
    file.finish();
    ZP_CHECK(disk_.rename(root_.handle(), temporary.c_str(), latest_name) == 0, ErrorCode::io,
             path_ + "/" + latest_name + " cannot be replaced: " + std::strerror(errno),
             "it would name an older checkpoint than the newest",
             "remove the file or folder of that name; all checkpoints are complete");
  } catch (...) {
    disk_.remove(root_.handle(), temporary.c_str());
    throw;
  }
  sync_root();
}

void CheckpointRoot::remove(std::int64_t step) const {
  const std::string name = checkpoint_name(step);
  const std::string hidden = unfinished_name(step, make_nonce());
  ZP_CHECK(disk_.rename(root_.handle(), name.c_str(), hidden.c_str()) == 0, ErrorCode::io,
           path_ + "/" + name + " cannot be removed: " + std::strerror(errno),
           "old checkpoints would fill the disk",
           "check the folder's permissions; all checkpoints are complete");
  sync_root();
  ZP_CHECK(remove_unfinished(hidden), ErrorCode::io,
           path_ + "/" + hidden + " cannot be removed: " + std::strerror(errno), "it is not needed",
           "remove it; all other checkpoints are complete");
}

bool CheckpointRoot::remove_unfinished(const std::string& name) const noexcept {
  try {
    const OpenFile folder(disk_, disk_.open_folder(root_.handle(), name.c_str()));
    const auto files = folder.is_open() ? disk_.list(folder.handle()) : std::nullopt;
    if (!files) return false;
    // The manifest first: without it, the rest is not a checkpoint.
    disk_.remove(folder.handle(), manifest_name);
    for (const std::string& file : *files) {
      if (file != manifest_name && disk_.remove(folder.handle(), file.c_str()) != 0) return false;
    }
  } catch (...) {
    return false;  // no memory for the names
  }
  return disk_.remove_folder(root_.handle(), name.c_str()) == 0;
}

void CheckpointRoot::sweep() const noexcept {
  try {
    const std::string latest_temporary = std::string(".") + latest_name + ".tmp-";
    for (const std::string& name :
         disk_.list(root_.handle()).value_or(std::vector<std::string>())) {
      if (is_unfinished_name(name)) remove_unfinished(name);
      if (name.compare(0, latest_temporary.size(), latest_temporary) == 0)
        disk_.remove(root_.handle(), name.c_str());
    }
  } catch (...) {
    return;  // the rest only takes space
  }
}

}  // namespace zeroproof
