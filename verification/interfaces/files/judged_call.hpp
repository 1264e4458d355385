#pragma once

#include <string>

#include "verification/interfaces/files/call_file.hpp"

namespace zeroproof::verification {

struct JudgedCall {
  bool pass = false;
  std::string text;  ///< for a person; ends with a newline
};

/// Compares what a program wrote with the reference, or with a dialect's implementation if `dialect` is not "": every output
/// there, of the dtype and shape that were asked for, nothing else, every bit equal (one NaN value). Results that are
/// wrong are given to identify, which may know whose they are; where the operation has bounds, whether any legal order
/// explains them is said too, and with `any_order` such results pass.
/// Errors: ErrorCode::io for files that cannot be read or are no call; ErrorCode::config for a dialect that does not
/// exist or does not compute the operation, and for a dialect with `any_order`.
JudgedCall judge_call(const std::string& inputs, const std::string& outputs,
                      const std::string& dialect, bool any_order = false);

}  // namespace zeroproof::verification
