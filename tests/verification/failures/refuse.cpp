// Loaded into a program (LD_PRELOAD): system calls on files below one folder fail. ZP_REFUSE is
// "CALL ERRNO N FOLDER": from the N-th call of a kind on, or, if CALL ends with -once, only the
// N-th.
//
// CALL   make (files and folders are made or opened for writing), write, sync, rename; space: it says that none is free

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {

struct Plan {
  std::string call, folder;
  int error = 0, n = 1;
  bool once = false;
};

const Plan& plan() {
  static const Plan it = [] {
    Plan read;
    const char* text = std::getenv("ZP_REFUSE");
    std::istringstream words(text != nullptr ? text : "");
    words >> read.call >> read.error >> read.n >> read.folder;
    const std::size_t dash = read.call.find("-once");
    read.once = dash != std::string::npos;
    if (read.once) read.call.resize(dash);
    return read;
  }();
  return it;
}

std::string path_of(int file) {
  char text[4096];
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "";
}

std::string path_at(int folder, const char* path) {
  if (*path == '/') return path;
  if (folder != AT_FDCWD) return path_of(folder) + "/" + path;
  char text[4096];
  return std::string(::getcwd(text, sizeof(text)) != nullptr ? text : "") + "/" + path;
}

bool refused(const char* call, const std::string& path) {
  static std::atomic<int> count{0};
  if (plan().call != call || !path.starts_with(plan().folder)) return false;
  const int number = ++count;
  if (number < plan().n || (plan().once && number > plan().n)) return false;
  errno = plan().error;
  return true;
}

bool is_made(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0; }

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// NOLINTBEGIN(cert-dcl50-cpp): these are the C library's
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (is_made(flags) && refused("make", path_at(AT_FDCWD, path))) return -1;
  return next<int(const char*, int, ...)>("open")(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (is_made(flags) && refused("make", path_at(folder, path))) return -1;
  return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  if (*mode != 'r' && refused("make", path_at(AT_FDCWD, path))) return nullptr;
  return next<FILE*(const char*, const char*)>("fopen64")(path, mode);
}

FILE* fopen(const char* path, const char* mode) { return fopen64(path, mode); }

int mkdir(const char* path, mode_t mode) {
  if (refused("make", path_at(AT_FDCWD, path))) return -1;
  return next<int(const char*, mode_t)>("mkdir")(path, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  if (refused("make", path_at(folder, path))) return -1;
  return next<int(int, const char*, mode_t)>("mkdirat")(folder, path, mode);
}

char* mkdtemp(char* pattern) {
  if (refused("make", path_at(AT_FDCWD, pattern))) return nullptr;
  return next<char*(char*)>("mkdtemp")(pattern);
}

int mkstemp(char* pattern) {
  if (refused("make", path_at(AT_FDCWD, pattern))) return -1;
  return next<int(char*)>("mkstemp")(pattern);
}

ssize_t write(int file, const void* data, size_t num_bytes) {
  if (refused("write", path_of(file))) return -1;
  return next<ssize_t(int, const void*, size_t)>("write")(file, data, num_bytes);
}

ssize_t writev(int file, const iovec* parts, int count) {
  if (refused("write", path_of(file))) return -1;
  return next<ssize_t(int, const iovec*, int)>("writev")(file, parts, count);
}

ssize_t pwrite(int file, const void* data, size_t num_bytes, off_t at) {
  if (refused("write", path_of(file))) return -1;
  return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, num_bytes, at);
}

ssize_t pwritev(int file, const iovec* parts, int count, off_t at) {
  if (refused("write", path_of(file))) return -1;
  return next<ssize_t(int, const iovec*, int, off_t)>("pwritev")(file, parts, count, at);
}

int fsync(int file) { return refused("sync", path_of(file)) ? -1 : next<int(int)>("fsync")(file); }

int fdatasync(int file) {
  return refused("sync", path_of(file)) ? -1 : next<int(int)>("fdatasync")(file);
}

int rename(const char* from, const char* to) {
  if (refused("rename", path_at(AT_FDCWD, to))) return -1;
  return next<int(const char*, const char*)>("rename")(from, to);
}

int renameat(int from_folder, const char* from, int folder, const char* to) {
  if (refused("rename", path_at(folder, to))) return -1;
  return next<int(int, const char*, int, const char*)>("renameat")(from_folder, from, folder, to);
}

int renameat2(int from_folder, const char* from, int folder, const char* to, unsigned flags) {
  if (refused("rename", path_at(folder, to))) return -1;
  return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from,
                                                                              folder, to, flags);
}

int statvfs(const char* path, struct statvfs* status) {
  const int result = next<int(const char*, struct statvfs*)>("statvfs")(path, status);
  if (result == 0 && refused("space", path_at(AT_FDCWD, path))) status->f_bavail = 0;
  return result;
}

int statvfs64(const char* path, struct statvfs64* status) {
  const int result = next<int(const char*, struct statvfs64*)>("statvfs64")(path, status);
  if (result == 0 && refused("space", path_at(AT_FDCWD, path))) status->f_bavail = 0;
  return result;
}

}  // extern "C"
// NOLINTEND(cert-dcl50-cpp)
