#pragma once
// Results that go nowhere are no results: standard output is checked before the work and after it.

namespace zeroproof::verification {

/// Standard input and error that are closed become /dev/null, so that no file this program opens takes their place.
/// Errors (ErrorCode::io): standard output is closed.
void require_standard_streams();

/// Flushes standard output. Errors (ErrorCode::io): the system did not accept the output, for
/// example on a full disk.
void flush_standard_output();

}  // namespace zeroproof::verification
