#pragma once
// Errors of the whole project: one sentence, "problem (reason); remedy" or "problem; remedy".

#include <stdexcept>
#include <string>

namespace zeroproof {

enum class ErrorCode {
  invalid_argument,  ///< the caller passed something the contract forbids
  config,            ///< a configuration file or command line is wrong (exit 2)
  io,                ///< a file could not be read or written
  damaged,           ///< the content of a file is not the content once written (exit 7)
  comm,              ///< ranks disagree about a collective, or a rank died
  timeout,           ///< a rank did not arrive within the time limit (exit 5)
  fp_environment,    ///< rounding mode or flush-to-zero violates the contract
  unavailable,       ///< this build or machine lacks a requested feature (exit 3)
  nonfinite,  ///< a gradient is not finite and the run stops on non-finite gradients (exit 1)
  internal,   ///< a defect of zeroproof itself (exit 9)
};

/// Origin of the problem: this rank, or another rank whose failure was reported to this one.
enum class ErrorOrigin { own, peer };

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, ErrorOrigin origin = ErrorOrigin::own)
      : std::runtime_error(message), code_(code), origin_(origin) {}
  ErrorCode code() const { return code_; }
  ErrorOrigin origin() const { return origin_; }

 private:
  ErrorCode code_;
  ErrorOrigin origin_;
};

/// Throws Error("problem (reason); remedy"). An obvious reason is left empty and not printed.
[[noreturn]] void fail(ErrorCode code, const std::string& problem, const std::string& why,
                       const std::string& remedy);

}  // namespace zeroproof

/// Checks a condition; the three texts are evaluated only when it is false.
#define ZP_CHECK(condition, code, problem, why, remedy)              \
  do {                                                               \
    if (!(condition)) ::zeroproof::fail(code, problem, why, remedy); \
  } while (0)
