#pragma once
// Where an MPI job keeps what has to be gone after it.

#include <string>
#include <vector>

namespace zeroproof::verification {

/// A folder of this user alone in TMPDIR or /tmp, and one in /dev/shm for shared memory, if there is one. Both
/// disappear with the object. What a run that was killed left is removed when the next one makes its folders: a folder
/// is locked as long as the process lives that made it, or the guard of its job (job_guard.hpp).
class JobFolder {
 public:
  /// Errors: io.
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  std::string file(const std::string& name) const { return folders_.front() + "/" + name; }
  const std::string& path() const { return folders_.front(); }
  /// "" where there is none.
  std::string shared_memory() const { return folders_.size() > 1 ? folders_.back() : ""; }
  const std::vector<std::string>& folders() const { return folders_; }
  const std::vector<int>& locks() const { return locks_; }

 private:
  bool add(const std::string& parent);

  std::vector<std::string> folders_;
  std::vector<int> locks_;
};

/// Removes folders in `parent` whose process is gone; those of other users and of processes that live stay.
void sweep_job_folders(const std::string& parent);

/// The whole content of a file; "" if it cannot be read.
std::string content_of(const std::string& path);

}  // namespace zeroproof::verification
