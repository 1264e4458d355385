#pragma once
// Names in a folder of checkpoints. They never contain a tensor's name.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroproof {

/// "step-00000050"
std::string checkpoint_name(std::int64_t step);

/// The step of such a name; nothing for other names.
std::optional<std::int64_t> parse_checkpoint_name(std::string_view name);

/// ".step-00000050.tmp-NONCE": folder of an unfinished save or of a removed checkpoint. Never read.
std::string unfinished_name(std::int64_t step, std::string_view nonce);
bool is_unfinished_name(std::string_view name);

/// True if a file of a checkpoint may have this name: 1 to 128 of letters, digits, '.', '_' and
/// '-', not starting with '.'. So it is never a path.
bool is_checkpoint_file_name(std::string_view name);

/// 16 hexadecimal digits, unique among processes.
std::string make_nonce();

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* latest_name = "LATEST";
inline constexpr const char* lock_name = "lock";

}  // namespace zeroproof
