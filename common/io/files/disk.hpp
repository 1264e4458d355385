#pragma once
// What a checkpoint asks of the file system, call by call: tests count the calls, fail one of them, or end there.

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace zeroproof {

/// Names are relative to folders that are open, so nothing outside of them is reached; a name that is a link is
/// refused, never followed. Results and errno are those of the calls of POSIX; interrupted calls are made again.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual int open_root(
      const char* path);  ///< a folder, by any path; links on the way are the caller's business
  virtual int open_folder(int folder, const char* name);
  virtual int make_folder(int folder, const char* name);  ///< for this user alone
  virtual int create(int folder,
                     const char* name);  ///< to be written; there must be none of that name
  virtual int open(int folder, const char* name);  ///< to be read
  virtual ssize_t write(int file, const void* bytes, std::size_t num_bytes);
  virtual ssize_t read(int file, void* bytes, std::size_t num_bytes, off_t offset);
  /// Whether writes go past the page cache from now on, from aligned memory and in aligned lengths. False if the file
  /// system will not, and nothing has changed.
  virtual bool set_direct(int file, bool on);
  virtual int sync(int file);  ///< or folder
  virtual int close(int file);
  virtual int rename(int folder, const char* from, const char* to);
  virtual int exchange(int folder, const char* one, const char* other);  ///< both names at once
  virtual int remove(int folder, const char* name);
  virtual int remove_folder(int folder, const char* name);
  /// Names in a folder, sorted, without "." and "..". Nothing if it cannot be read; errno says why.
  virtual std::optional<std::vector<std::string>> list(int folder);
};

/// The one of this machine.
Disk& system_disk();

}  // namespace zeroproof
