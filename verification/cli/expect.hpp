#pragma once
// verify --expect: compares another program's numbers instead of a candidate.

#include "verification/cli/run_verify.hpp"

namespace zeroproof::verification {

/// Errors (ErrorCode::config): --phase-names without --expect.
void check_expect_flags(const VerifyRequest& request);

/// Compares and reports; returns 0 if everything is equal or accepted, 1 if not, 4 if the bounds of --accept any-order
/// do not apply to a number that differs. Errors: config for flags that mean nothing here, and as compare_expected.
int run_expect(const VerifyRequest& request);

}  // namespace zeroproof::verification
