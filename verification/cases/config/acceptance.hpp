#pragma once

#include <string>

namespace zeroproof {

/// Results that pass, besides those with the contract's bits: the value of --accept, or of accept= in Python.
struct Acceptance {
  bool any_order = false;    ///< of any legal order of operations, within its bound
  bool fp32_powers = false;  ///< there, also with powers of the betas in fp32 ([Bound:powers])
  std::string dialect = {};  ///< of another library; "" for none

  /// "any legal order, with powers of beta in fp32", "the dialect torch-sgd"; "" for the contract's bits
  std::string text() const;
};

enum class AcceptedDialects : bool { no, yes };

/// Reads "" and "bits", "any-order", "any-order,fp32-powers" and, where dialects are accepted, "dialect:NAME".
/// subject: of error messages, "--accept". Errors: ErrorCode::config for other words.
Acceptance acceptance_of(const std::string& words, const std::string& subject,
                         AcceptedDialects dialects);

}  // namespace zeroproof
