// Inputs of the cases of planted faults besides their ids, as files that verify and train read.

#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/cases/config/config_write.hpp"
#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {

std::vector<std::string> write_fault_inputs(const std::vector<std::string>& patterns,
                                            const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(folder, failed);
  std::vector<std::string> written;
  const auto wrote = [&](const std::string& path, bool good) {
    ZP_CHECK(good, ErrorCode::io, path + " cannot be written", "the case needs it as input",
             "use a writable folder with free space");
    written.push_back(path);
  };
  for (const Fault* fault : chosen_faults(patterns)) {
    const FaultCase& row = plan_of(fault->id);
    const std::string path = (fs::path(folder) / std::string(fault->id)).string();
    VerifyOptions options;
    if (row.gradients != nullptr) {
      options.gradients = row.gradients();
      fs::copy_file(options.gradients, path + ".safetensors", fs::copy_options::overwrite_existing,
                    failed);
      wrote(path + ".safetensors", !failed);
    }
    if (row.config == nullptr) continue;
    options.overrides = row.config;
    std::ofstream settings(path + ".toml");
    settings << to_toml(config_of(options, parse_case_id(std::string(row.case_id))->workload));
    settings.close();
    wrote(path + ".toml", settings.good());
  }
  return written;
}

}  // namespace zeroproof::verification
