#pragma once
// Temporary folders of an MPI job.

#include <string>
#include <vector>

namespace zeroproof::verification {

/// A private folder in TMPDIR or /tmp, and one in /dev/shm for shared memory, if that exists. Both
/// are removed with the object. Folders of a killed run are removed when the next one creates its
/// folders: a folder is locked while the process that created it, or the guard of its job
/// (job_guard.hpp), lives.
class JobFolder {
 public:
  /// Errors: io.
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  std::string file(const std::string& name) const { return folders_.front() + "/" + name; }
  const std::string& path() const { return folders_.front(); }
  /// "" if there is none.
  std::string shared_memory() const { return folders_.size() > 1 ? folders_.back() : ""; }
  const std::vector<std::string>& folders() const { return folders_; }
  const std::vector<int>& locks() const { return locks_; }

 private:
  bool add(const std::string& parent);

  std::vector<std::string> folders_;
  std::vector<int> locks_;
};

/// Removes folders in `parent` whose process has ended; those of other users and of live processes
/// stay.
void sweep_job_folders(const std::string& parent);

/// The whole content of a file; "" if it cannot be read. Does not wait for the writer of a pipe.
std::string content_of(const std::string& path);

}  // namespace zeroproof::verification
