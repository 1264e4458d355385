#pragma once

namespace zeroproof::verification {

/// The process that holds a plug-in: what main runs where the first word is plugin_worker_word, and the second the
/// library. Loads it, says hello, computes calls until nobody is there to ask. Returns the exit code.
int plugin_worker(int argc, char** argv);

}  // namespace zeroproof::verification
