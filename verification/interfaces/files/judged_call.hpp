#pragma once

#include <string>

#include "verification/cases/config/acceptance.hpp"
#include "verification/interfaces/files/call_file.hpp"

namespace zeroproof::verification {

struct JudgedCall {
  bool pass = false;
  std::string text;  ///< for the terminal; ends with a newline
};

/// Compares a program's results with the reference, or with a dialect's implementation if `dialect`
/// is not "": every output must be present, of the expected dtype and shape, without further
/// tensors, and every bit equal (one NaN value). Wrong results are passed to `identify`, which
/// returns the matching dialects; if the operation has bounds, the text also reports whether any
/// legal order explains the results, and with `accepted.any_order` such results pass. Errors:
/// ErrorCode::io for files that cannot be read or are not a call; ErrorCode::config for a dialect that
/// does not exist or does not compute the operation, for a dialect with `any_order`, and for
/// `fp32_powers` of an operation without bias correction. `accepted.dialect` is not read.
JudgedCall judge_call(const std::string& inputs, const std::string& outputs,
                      const std::string& dialect, const Acceptance& accepted = {});

}  // namespace zeroproof::verification
