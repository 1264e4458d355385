#pragma once
// Which cases to run, and with which settings.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

struct Result;
class OpCandidate;
class OpExpectation;

/// A candidate and how it is judged, "host" in lock-step and so on.
struct ImplementationMode {
  Implementation implementation;
  Mode mode;
};

struct VerifyOptions {
  std::vector<std::string> patterns;  ///< case ids or patterns; none: every case of the main job
  std::vector<std::string>
      recipes;  ///< none: as configured, and for byte_gpt_tiny every other one too
  std::vector<Implementation>
      implementations;      ///< none: those of the host, and of a device if one is available
  std::vector<Mode> modes;  ///< none: the implementation's own (phases: lock-step; fused: free)
  std::string config_file;  ///< TOML, applied over the workload's defaults
  std::function<void(RunConfig&)> overrides = [](RunConfig&) {
  };                               ///< command-line settings, applied last
  std::optional<NormForm> norm;    ///< instead of the recipe's
  std::optional<double> max_norm;  ///< the same
  std::string gradients;           ///< file of the workload "recorded"; "" for the built-in ones
  std::string
      hostfile;  ///< where mpirun starts the ranks of MPI worlds; "" for ZP_HOSTFILE, or this machine
  std::string fault;                          ///< identifier of a planted fault
  std::shared_ptr<const OpCandidate> plugin;  ///< foreign operations to be judged; null: none
  bool plugin_operates = false;               ///< it has operations
  bool plugin_steps = false;                  ///< it makes whole steps
  std::shared_ptr<const OpExpectation>
      expectation;  ///< required results of the plug-in; null: the contract
  bool any_order =
      false;  ///< its updates may use any order covered by the bound of papers/bounds.md
  bool fp32_powers = false;                  ///< there, and powers of beta in fp32
  std::optional<std::uint64_t> second_seed;  ///< of a plug-in's second inputs and training run
  bool accepts_declined = false;             ///< the plug-in may decline whole variants or sizes
  int jobs = 0;  ///< cores that cases may use; 0: those this process has
  std::vector<std::string>
      replay_flags;  ///< settings a replay line must repeat: flag, value, flag, value, ...
  /// may be empty; called with training cases as they end, one call at a time, from any thread
  std::function<void(Span<const Result>)> on_verdicts;
  /// may be empty; called with all cases as they end, some of them twice, from any thread
  std::function<void(Span<const Result>)> on_results;

  /// True if the implementation is selected: by name or, without names, if it is the plug-in or no
  /// plug-in is loaded.
  bool wants(Implementation implementation) const;
};

/// Restricts the configuration's lists of dtypes, stages, orders, layouts, sums, windows, transport
/// and grids to the values of the case.
void take_place(RunConfig& config, const CaseSpec& spec);

/// Settings of a workload after configuration file and command line. Errors: ErrorCode::config.
RunConfig config_of(const VerifyOptions& options, const std::string& workload);

/// The same under a case's recipe and for its dtype.
RunConfig config_of(const VerifyOptions& options, const CaseSpec& spec);

/// All cases of a workload: the product of recipes, implementations, worlds, stages, dtypes, buckets and threads.
std::vector<CaseSpec> cases_of(const VerifyOptions& options, const std::string& workload);

/// The cases a pattern selects: a complete id that case, a workload's name its cases, "" those of
/// the main job. Empty if nothing matches.
std::vector<CaseSpec> cases_matching(const VerifyOptions& options, const std::string& pattern);

/// The text as one word of a shell line.
std::string shell_word(const std::string& word);

/// The shell line that runs one case again, from any folder: a forced instruction set, this
/// program, the id and the settings outside it.
std::string replay_line(const VerifyOptions& options, const std::string& id);

/// The shell line that runs a saved bundle again, from any folder: the settings are in the bundle,
/// the plug-in is not.
std::string bundle_line(const VerifyOptions& options, const std::string& folder);

}  // namespace zeroproof::verification
