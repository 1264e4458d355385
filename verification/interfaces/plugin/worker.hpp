#pragma once

namespace zeroproof::verification {

/// The process that holds a plug-in: main calls it if the first word is plugin_worker_word, and the
/// second the library. Loads it, sends a hello, computes calls until the connection closes. Returns
/// the exit code.
int plugin_worker(int argc, char** argv);

}  // namespace zeroproof::verification
