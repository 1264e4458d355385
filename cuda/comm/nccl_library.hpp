#pragma once
// libnccl, found and loaded at run time: a program is built and runs without it. This header needs
// neither nccl.h nor CUDA.

#include <memory>
#include <string>
#include <vector>

namespace zeroproof::cuda {

struct NcclFunctions;  // nccl_functions.hpp, which needs nccl.h

/// One loaded libnccl. It is never unloaded: its threads may run until the process ends.
class NcclLibrary {
 public:
  /// Loads only this file, or the file that the dynamic linker finds for this name. Errors:
  /// unavailable if there is none, if its major version differs from the one that the program was
  /// built for, or if it lacks a required function.
  explicit NcclLibrary(const std::string& path);
  ~NcclLibrary();
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  const std::string& path() const { return path_; }  ///< of the loaded file
  const std::string& version() const { return version_; }
  /// Functions that only some versions have, missing in this one.
  const std::vector<std::string>& missing() const { return missing_; }
  const NcclFunctions& functions() const { return *functions_; }

 private:
  void take_functions(void* library);
  void check_version();

  std::string path_, version_;
  std::vector<std::string> missing_;
  std::unique_ptr<NcclFunctions> functions_;
};

/// The file in ZP_NCCL_LIBRARY, and only that if it is set; otherwise libnccl.so.2 of the dynamic
/// linker's search path, of the CUDA toolkit, or of the packages of python3. Errors: unavailable,
/// with the error of the last existing file.
std::unique_ptr<NcclLibrary> find_nccl();

/// The library of this process, searched in the first call; later calls have the same result.
/// Thread-safe.
const NcclLibrary& shared_nccl();

/// Description of shared_nccl() for reports: "NCCL 2.28.9, /usr/lib/libnccl.so.2", with missing
/// functions, or the reason why there is none. Does not throw.
std::string describe_nccl();

}  // namespace zeroproof::cuda
