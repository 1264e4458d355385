#pragma once
// Names in a folder of checkpoints. None of them is ever made of a tensor's name.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroproof {

/// "step-00000050"
std::string checkpoint_name(std::int64_t step);

/// The step of such a name; nothing for any other one.
std::optional<std::int64_t> parse_checkpoint_name(std::string_view name);

/// ".step-00000050.tmp-NONCE": what a save fills, or what a removed one was renamed to. Nobody reads it.
std::string unfinished_name(std::int64_t step, std::string_view nonce);
bool is_unfinished_name(std::string_view name);

/// Whether a file of a checkpoint may have this name: 1 to 128 of letters, digits, '.', '_' and '-', the first one no
/// '.'. So it is no path, and none that leads elsewhere.
bool is_checkpoint_file_name(std::string_view name);

/// 16 hexadecimal digits that no other process has.
std::string make_nonce();

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* latest_name = "LATEST";
inline constexpr const char* lock_name = "lock";

}  // namespace zeroproof
