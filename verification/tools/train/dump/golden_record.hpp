#pragma once
// The TOML file beside a golden file: how to compute it again, the program that wrote it, and why
// it was changed. It contains its own digest: only this program edits it.

#include <string>
#include <utility>
#include <vector>

#include "common/base/dtype.hpp"

namespace zeroproof::verification {

/// Why a golden file has its contents; the first entry is of the time it was recorded.
struct GoldenReason {
  std::string date;  ///< UTC, 2026-11-23
  std::string program;
  std::int64_t contract_version = 0;
  std::string trajectory;  ///< hash it led to
  std::string reason;
};

struct GoldenRecord {
  std::string case_id;  ///< one that is compared with this trajectory
  std::string workload, recipe;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> steps;
  std::string settings;  ///< TOML
  std::string
      gradients;      ///< file of the workload "recorded", relative to the golden file; "" for none
  std::string text;   ///< the same of a text, "" for the workload's own
  std::string input;  ///< digest of gradients or text
  std::int64_t contract_version = 0;
  std::string program;
  std::string digest;       ///< of the golden file
  std::string trajectory;   ///< hash of the run, to the last of the steps
  std::string recorded_by;  ///< "plugin NAME", whose bits the file has; "" for the reference's
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< compiler, instruction sets, ...
  std::vector<GoldenReason> history;
};

/// The name of the record of a golden file: FILE.toml.
std::string golden_record_name(const std::string& file);

/// With a digest of all of its members, as `record_digest`.
std::string to_toml(const GoldenRecord& record);

/// Errors: io, the file is missing, is no TOML, or no such record; the message names the problem.
/// damaged, a member was changed since to_toml() wrote it.
GoldenRecord read_golden_record(const std::string& path);

}  // namespace zeroproof::verification
