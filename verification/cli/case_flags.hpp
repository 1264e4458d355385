#pragma once
// The flags that choose cases and settings: all of them for verify and list, some for other commands.

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/span.hpp"
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
  std::string plugin, plugin_timeout, accept, declined, second_seed;
  std::string cover, cover_seed, slice;  ///< rows of a covering array instead of patterns
  std::string config_file, text, fault, blind, seed, steps, micro_batches, comm_timeout, hostfile,
      jobs;
};

/// Everything about one of these flags; commands, checks and replay lines are derived from it.
struct CaseFlag {
  /// The kind of cases that a pattern selects. A complete id determines its case, but not the
  /// settings of its run. Under --expect no case is run.
  enum Kind : unsigned {
    training = 1,
    training_id = 2,
    op = 4,
    lbfgs = 8,
    control = 16,
    covering = 32,
    resume = 64,
    expectation = 128,
    comm = 256
  };
  /// Place in a replay line, in this order; none: part of the id, or without effect on a case.
  enum class Replay { none, run, optimizer, candidate };

  const char* name;
  std::variant<std::string CaseFlags::*, std::vector<std::string> CaseFlags::*, bool CaseFlags::*>
      member;
  unsigned applies;  ///< kinds
  /// Sets a configuration from the typed values, at least one; null: options_from() reads them.
  /// Errors: ErrorCode::config.
  void (*set)(const CaseFlag& flag, const std::vector<std::string>& values, RunConfig& config);
  const char* help;
  Replay replay = Replay::none;
  bool is_file = false;

  /// The typed values, none if the flag is not given.
  std::vector<std::string> values(const CaseFlags& flags) const;
  bool given(const CaseFlags& flags) const { return !values(flags).empty(); }
};

/// In the order of help texts and checks.
Span<const CaseFlag> case_flags();

/// Errors: ErrorCode::internal if there is none of that name.
const CaseFlag& case_flag(std::string_view name);

/// Registers the flags on a subcommand.
std::shared_ptr<CaseFlags> add_case_flags(const Command& command, bool with_blind = false);

/// A flag of another command, with its text there; null: the same text.
struct SharedFlag {
  const char* name;
  const char* help = nullptr;
};

/// Registers some flags on a subcommand. one_value: lists have one value there.
void add_shared_flags(const Command& command, CaseFlags& flags, Span<const SharedFlag> shared,
                      bool one_value = false);

/// Errors (ErrorCode::config): a value that is no number, or names nothing.
VerifyOptions options_from(const CaseFlags& flags);

/// Errors: ErrorCode::config if there is no such fault, unavailable in a program without planted faults; "" is none.
void check_fault(const std::string& fault);

/// Errors: ErrorCode::unavailable in a program without planted faults.
void require_faults();

/// "blind: fault 3 of 21 that this case can have; ...", a line, or "" without --blind.
std::string blind_line(const CaseFlags& flags, const VerifyOptions& options,
                       const std::string& case_id);

}  // namespace zeroproof::verification
