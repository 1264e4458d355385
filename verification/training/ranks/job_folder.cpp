#include "verification/training/ranks/job_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "zeroproof-job-";
constexpr const char* lock_name = "lock";
constexpr std::time_t unlocked_for =
    60;  // seconds; the lock is taken shortly after the folder is created

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

int open_lock(const std::string& folder, int flags) {
  return ::open((folder + "/" + lock_name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

bool is_abandoned(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid())
    return false;
  const int lock = open_lock(folder, 0);
  if (lock < 0) return std::time(nullptr) - status.st_mtime > unlocked_for;
  const bool free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  ::close(lock);
  return free;
}

}  // namespace

void sweep_job_folders(const std::string& parent) {
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string folder = entry->path().string();
    std::error_code refused;
    if (entry->path().filename().string().starts_with(prefix) && is_abandoned(folder))
      fs::remove_all(folder, refused);
  }
}

std::string content_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string text;
  std::array<char, 1 << 14> piece;
  ssize_t count = file < 0 ? 0 : 1;
  while (count > 0) {
    count = ::read(file, piece.data(), piece.size());
    if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  }
  if (file >= 0) ::close(file);
  return count < 0 ? "" : text;
}

JobFolder::JobFolder() {
  const std::string parent = temporary_folder();
  errno = 0;
  ZP_CHECK(add(parent), ErrorCode::io,
           "cannot create a folder in " + parent + ": " + std::strerror(errno),
           "it holds input and results of an MPI job",
           "set TMPDIR to a folder that can be written");
  add("/dev/shm");
}

bool JobFolder::add(const std::string& parent) {
  sweep_job_folders(parent);
  std::string path = parent + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return false;
  const int lock = open_lock(path, O_CREAT | O_EXCL);
  if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int refusal = errno;
    if (lock >= 0) ::close(lock);
    std::error_code error;
    fs::remove_all(path, error);
    errno = refusal;
    return false;
  }
  folders_.push_back(std::move(path));
  locks_.push_back(lock);
  return true;
}

JobFolder::~JobFolder() {
  std::error_code error;
  for (const std::string& folder : folders_) fs::remove_all(folder, error);
  for (const int lock : locks_) ::close(lock);
}

}  // namespace zeroproof::verification
