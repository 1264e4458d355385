#pragma once
// The flags that choose cases and settings, shared by verify and list.

#include <memory>
#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/cli/command_set.hpp"

namespace zeroproof::verification {

/// Texts as the user typed them; turned into VerifyOptions only after parsing, so that every error has one
/// form.
struct CaseFlags {
  std::vector<std::string> patterns, recipes, implementations, modes, worlds, dtypes, stages,
      buckets, threads;
  std::vector<std::string> orders, layouts, grad_sums, windows, transport, grids;
  std::vector<std::string> offloads, offload_orders, offload_places, offload_chunks,
      offload_overlaps, offload_grads;
  std::string instances, persistent_numel, norm, max_norm;
  std::string exp_avg_dtype, exp_avg_sq_dtype, master_dtype;
  bool overlap = false, oversubscribe = false;
  std::string gradients;
  std::string plugin, plugin_timeout, accept;
  std::string cover, cover_seed, slice;  ///< rows of a covering array instead of patterns
  std::string config_file, text, fault, blind, seed, steps, micro_batches, comm_timeout, hostfile,
      jobs;
};

/// Registers the flags on a subcommand.
std::shared_ptr<CaseFlags> add_case_flags(const Command& command);

/// Errors (ErrorCode::config): a value that is no number, or names nothing.
VerifyOptions options_from(const CaseFlags& flags);

/// Errors: ErrorCode::config if there is no such fault, unavailable in a program without planted faults; "" is none.
void check_fault(const std::string& fault);

/// Errors: ErrorCode::unavailable in a program without planted faults.
void require_faults();

/// Registers --blind.
void add_blind_flag(const Command& command, CaseFlags& flags);

/// "blind: fault 3 of 21 that this case can have; ...", a line, or "" without --blind.
std::string blind_line(const CaseFlags& flags, const VerifyOptions& options,
                       const std::string& case_id);

}  // namespace zeroproof::verification
