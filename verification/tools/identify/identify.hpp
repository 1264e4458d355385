#pragma once
// Identifies the arithmetic of a step.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verification/compare/wrong_formulas.hpp"
#include "verification/tools/identify/muon.hpp"
#include "verification/tools/identify/ratio.hpp"
#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::verification {

/// Number of elements that a formula does not give, by position in their tensor of n elements.
struct Leaving {
  std::string text;  ///< the formula
  std::int64_t scanned =
      0;  ///< elements that were evaluated; the search drops a formula that is clearly wrong
  std::int64_t body = 0;     ///< before the last n mod 16
  std::int64_t sixteen = 0;  ///< in the last n mod 16, but not the last n mod 8
  std::int64_t eight = 0;    ///< in the last n mod 8

  std::int64_t all() const { return body + sixteen + eight; }
  double share() const {
    return scanned == 0 ? 0 : static_cast<double>(all()) / static_cast<double>(scanned);
  }
};

/// The result for one buffer.
struct BufferFinding {
  enum class Kind : std::uint8_t {
    formula,  ///< one formula for every element
    two,      ///< one for the body, another for the tail
    leaves,   ///< a formula, with exceptions that follow none
    none      ///< every formula has at least 1 % exceptions
  };

  std::string buffer;
  Kind kind = Kind::none;
  Leaving best;           ///< body formula, or the nearest
  std::string tail_text;  ///< of kind two
  int tail_width = 0;  ///< of kind two, and of kind leaves if all exceptions are in a tail; else 0
  bool unwritten = false;  ///< kind leaves: exceptions have the value before the step
};

/// A buffer in which the nearest dialect differs.
struct DialectDifference {
  std::string buffer;
  std::string theirs;  ///< the dialect's formula
  std::int64_t differing = 0;
  std::int64_t scanned = 0;
};

struct Identification {
  std::vector<BufferFinding> buffers;
  std::vector<std::string> fits;  ///< every dialect that gives these bits
  bool tells = true;    ///< false if every dialect that takes such a step gives these bits
  std::string nearest;  ///< if none fits, the dialect that differs in fewest buffers, then elements
  std::vector<DialectDifference> differences;  ///< of the nearest
  std::vector<RatioFinding> ratios;            ///< of lamb, with the formula of master
  std::optional<MuonFinding> muon = {};        ///< of muon, in place of a formula of master
  std::vector<std::string> excluded =
      {};  ///< of muon: choices of the nearest dialect that the step does not have

  bool unchanged = false;   ///< no value differs from the one before the step
  std::string bits16 = {};  ///< "bf16" or "fp16" if all values after the step are such numbers
  /// If no dialect fits: the largest error divided by its bound over all legal orders. Not for lamb.
  std::optional<double> share = {};
  /// If no legal order has the results: wrong_formulas(); of muon with given choices: muon_mistakes().
  std::vector<std::string> wrong = {};

  bool named() const { return !unchanged && tells && !fits.empty(); }
  /// No dialect, and a legal order of the update.
  bool legal() const { return !unchanged && share && *share <= 1; }
  /// True if the step shows whether the update is right.
  bool judged() const { return !unchanged && tells && (named() || legal() || bits16.empty()); }
};

Identification identify(const RecordedStep& step);

/// The step for the bound over all legal orders, with the betas as given, or rounded to fp32 first.
UpdateSetup setup_of(const RecordedStep& step, bool rounded_betas);
/// A tensor of it.
UpdateResults results_of(const StepTensor& tensor);

/// A formula is rejected if at least this share of the elements differs from it.
inline constexpr double no_formula = 0.01;

/// Names with families combined: "torch-cpu-fused, apex-fused-adam:nn*r".
std::vector<std::string> shown_names(const std::vector<std::string>& names);

/// For a person; ends with a newline.
std::string identification_text(const RecordedStep& step, const Identification& found);

/// In one line: the names of the dialects, or why there is none.
std::string identification_line(const Identification& found);

}  // namespace zeroproof::verification
