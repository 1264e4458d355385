#pragma once
// Results that go nowhere are no results: standard output is checked before the work and after it.

namespace zeroproof::verification {

/// Standard input and error that are closed become /dev/null, so that no file this program opens takes their place.
/// Errors (ErrorCode::io): standard output is closed.
void require_standard_streams();

/// Hands what was printed to the system. Errors (ErrorCode::io): standard output did not take it, a full disk for
/// example.
void flush_standard_output();

}  // namespace zeroproof::verification
