#pragma once
// Text about a folder of checkpoints, or about one checkpoint.

#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"

namespace zeroproof::verification {

/// A row for every checkpoint: step, files, bytes, where it was saved, or its error.
std::string folder_table(const CheckpointRoot& root);

/// Training, counters, buffers and files of one. all_rows: its tensors too.
std::string inspect_text(const CheckpointReader& checkpoint, bool all_rows);

}  // namespace zeroproof::verification
