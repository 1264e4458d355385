#pragma once
// Ids of operation cases: "op/adamw_update/host/x86-64-v3/fill:ties".

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verification/cases/result.hpp"
#include "verification/ops/op_candidate.hpp"
#include "verification/ops/op_expectation.hpp"

namespace zeroproof::verification {

struct OpCaseSpec {
  const Op* op = nullptr;
  const OpCandidate* candidate = nullptr;
  Fill fill = Fill::training;

  std::string id() const;
};

/// The cases a pattern selects on this machine: every instruction set (only ZP_ISA's if that is
/// set), the device, which is skipped with the reason if none is available, and the other given
/// candidates. A complete id selects its case anywhere. Errors (ErrorCode::config): a complete id
/// with a part that does not exist.
std::vector<OpCaseSpec> op_cases(const std::string& pattern,
                                 const std::vector<const OpCandidate*>& others = {});

/// Every point of a case's sweep: sizes around the vector widths and the chunk, offsets, variants, threads.
std::vector<CallShape> sweep(const Op& op, Fill fill, std::uint64_t seed);

struct OpRunOptions {
  std::uint64_t seed = 1;
  /// Of the second inputs of a candidate that may remember the first; nothing: made from `seed`.
  std::optional<std::uint64_t> second_seed;
  bool accepts_declined = false;               ///< declined calls do not count against trust
  std::string fault;                           ///< identifier of a planted fault for the candidates
  const OpExpectation* expectation = nullptr;  ///< replaces the reference
  bool any_order = false;  ///< results within the bound over all legal orders count as equal
  bool fp32_powers =
      false;  ///< there, also with powers of beta in fp32, where the operation has some
  std::function<std::string(const std::string& id)> replay_line;
  std::function<void(double fraction, const std::string& what)> progress;
  /// called with results as they come; may be empty
  std::function<void(Span<const Result>)> finished;
};

/// Runs the cases; the reference computes each set of inputs once for all compared implementations.
std::vector<Result> run_op_cases(const std::vector<OpCaseSpec>& cases, const OpRunOptions& options);

}  // namespace zeroproof::verification
