#pragma once
// Saved failures: a folder with everything a rerun needs, on this machine or another.
//
//   bundle.json   schema zeroproof-bundle/1: case id, settings, instruction set, versions, and what failed
//   config.toml   the configuration file of the run, if it had one
//   text.bin      the text of the run (training cases)
//   gradients.safetensors   the recorded gradients of the run, if it used any
//   tensors.safetensors     operations: inputs and both sides' outputs of the first call that failed

#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

struct Bundle {
  std::string id;
  std::string program;  ///< "zeroproof" or "zeroproof-faults"
  std::string version;  ///< of that program
  unsigned contract = 0;
  std::string isa;  ///< instruction set of the host implementations in that run
  std::string compiler;
  std::vector<std::string>
      flags;            ///< of verify: flag, value, ...; files are added from the folder,
                        ///< a plug-in by the user
  std::string failure;  ///< status and first difference, to compare a rerun with
  std::string config_file, text_file,
      gradients_file;  ///< absolute paths inside the bundle, "" if it has none
};

/// Saves every case that failed or broke, each in a folder of its own below `folder`; never over an older one. Returns
/// the folders. Errors (ErrorCode::io): something could not be written.
std::vector<std::string> save_bundles(const RunReport& report, const VerifyOptions& options,
                                      const std::string& folder);

/// Reads a bundle: its folder, or the bundle.json in it. Errors (ErrorCode::config): no bundle, a damaged one, one of
/// another schema or contract.
Bundle load_bundle(const std::string& path);

/// Writes the buffers of a failing call as a safetensors file. Errors (ErrorCode::io): it could not be written.
void save_tensors(const std::string& path, const Result& result);

}  // namespace zeroproof::verification
