#pragma once

namespace zeroproof::verification {

/// Reads the command line and runs the subcommand it names; returns the exit code. Errors
/// (ErrorCode::config): an invalid command line, naming the nearest command or flag; all errors of
/// the subcommand.
int run_command_line(int argc, char** argv);

}  // namespace zeroproof::verification
