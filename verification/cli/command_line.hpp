#pragma once

namespace zeroproof::verification {

/// Reads the command line and runs the subcommand it names; returns the exit code. Errors (ErrorCode::config): a
/// command line that cannot be understood, naming the nearest command or flag; whatever the subcommand throws.
int run_command_line(int argc, char** argv);

}  // namespace zeroproof::verification
