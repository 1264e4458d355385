#pragma once
// The file system calls of a checkpoint: tests count the calls, fail one of them, or end the
// process there.

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace zeroproof {

/// Names are relative to open folders, so nothing outside of them is reached; a name that is a link
/// is rejected, never followed. Results and errno are those of POSIX; interrupted calls are
/// repeated.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual int open_root(
      const char* path);  ///< a folder, by any path; links in the path are followed
  virtual int open_folder(int folder, const char* name);
  virtual int make_folder(int folder, const char* name);  ///< for this user only
  virtual int create(int folder,
                     const char* name);            ///< for writing; the name must not exist
  virtual int open(int folder, const char* name);  ///< for reading
  virtual ssize_t write(int file, const void* bytes, std::size_t num_bytes);
  virtual ssize_t read(int file, void* bytes, std::size_t num_bytes, off_t offset);
  /// Lets writes bypass the page cache from now on, from aligned memory and in aligned lengths.
  /// False if the file system does not support it; then nothing has changed.
  virtual bool set_direct(int file, bool on);
  virtual int sync(int file);  ///< or folder
  virtual int close(int file);
  virtual int rename(int folder, const char* from, const char* to);
  virtual int exchange(int folder, const char* one, const char* other);  ///< both names at once
  virtual int remove(int folder, const char* name);
  virtual int remove_folder(int folder, const char* name);
  /// Names in a folder, sorted, without "." and "..". Nothing if it cannot be read; see errno.
  virtual std::optional<std::vector<std::string>> list(int folder);
};

/// The disk of this machine.
Disk& system_disk();

}  // namespace zeroproof
