#pragma once
// libnccl, found and loaded while the program runs: a program is built without it and runs without it. This header
// needs neither nccl.h nor CUDA.

#include <memory>
#include <string>
#include <vector>

namespace zeroproof::cuda {

struct NcclFunctions;  // nccl_functions.hpp, which needs nccl.h

/// One loaded libnccl. It stays loaded: threads of its own may run in it until the process ends.
class NcclLibrary {
 public:
  /// Loads this file, or this name as the dynamic linker finds it, and nothing else.
  /// Errors: unavailable if there is none, if it is of another major version than the program was built for, or lacks a
  /// function that is needed.
  explicit NcclLibrary(const std::string& path);
  ~NcclLibrary();
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  const std::string& path() const { return path_; }  ///< of the file that was loaded
  const std::string& version() const { return version_; }
  /// Functions that only some versions have, and this one has not.
  const std::vector<std::string>& missing() const { return missing_; }
  const NcclFunctions& functions() const { return *functions_; }

 private:
  void take_functions(void* library);
  void check_version();

  std::string path_, version_;
  std::vector<std::string> missing_;
  std::unique_ptr<NcclFunctions> functions_;
};

/// The file that ZP_NCCL_LIBRARY names, and only that if it is set; or else libnccl.so.2 where the dynamic linker
/// looks, of the CUDA toolkit, or of the packages of python3.
/// Errors: unavailable, with what is wrong with the last file that is there.
std::unique_ptr<NcclLibrary> find_nccl();

/// The one of this process, looked for at the first call; later calls end as that one did. From any thread.
const NcclLibrary& shared_nccl();

/// For reports, of shared_nccl(): "NCCL 2.28.9, /usr/lib/libnccl.so.2", with what it lacks, or why there is none.
/// Throws
/// nothing.
std::string describe_nccl();

}  // namespace zeroproof::cuda
