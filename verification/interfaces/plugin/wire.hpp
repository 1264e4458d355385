#pragma once
// Messages between this program and zeroproof-plugin, the process that holds a plug-in: one plain
// structure per message.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace zeroproof::verification {

inline constexpr int most_plugin_operands = 24;
inline constexpr int most_plugin_settings = 64;
inline constexpr int most_plugin_operations = 64;

template <std::size_t size>
using WireText = std::array<char, size>;

template <std::size_t size>
void put_text(WireText<size>& text, const std::string& value) {
  text = {};
  std::memcpy(text.data(), value.data(), std::min(size - 1, value.size()));
}

/// The text up to its NUL, or all of it if there is none.
template <std::size_t size>
std::string get_text(const WireText<size>& text) {
  return {text.data(), ::strnlen(text.data(), size)};
}

struct WireOperand {
  WireText<32> name;
  std::uint8_t code, bits;
  std::int32_t access;
  std::int32_t ndim;
  std::array<std::int64_t, 2> shape;
  std::uint64_t offset;  ///< of element 0 in the shared memory
};

struct TransportSetting {
  WireText<40> name;
  std::int32_t kind;
  std::uint64_t word;  ///< the value's bits
};

/// To the process: request to compute a call.
struct PluginRequest {
  std::uint64_t number = 0;                        ///< of this call; the reply has it too
  std::uint64_t arena_bytes = 0;                   ///< of the shared memory, which may have grown
  std::uint64_t place_begin = 0, place_bytes = 0;  ///< slot of the call in it, with its red zones
  WireText<48> operation{};
  std::int32_t num_threads = 1, num_operands = 0, num_settings = 0;
  std::array<WireOperand, most_plugin_operands> operands{};
  std::array<TransportSetting, most_plugin_settings> settings{};
};

/// From the process, after a call.
struct PluginReply {
  std::uint64_t number = 0;  ///< of the answered call
  std::int32_t returned = 0;
  bool mask_changed = false;
  bool declined = false;       ///< the library does not support the call, and nothing was computed
  WireText<160> fp_problem{};  ///< change of the floating-point environment; "" if none
  WireText<240> message{};     ///< written by the plug-in
  WireText<240> device_problem{};  ///< error of the device; "" if none
};

/// From the process, first, before it loads anything: programs of which one cannot read the other's
/// messages send different texts.
struct PluginGreeting {
  WireText<96> build{};
};

/// From the process, once: the content of the library, or the reason that it was not loaded.
struct PluginHello {
  WireText<400> problem{}, remedy{};  ///< "" if there is none
  WireText<40> name{};
  bool makes_steps = false;
  std::int32_t device_type = 0;  ///< of its operands
  std::int32_t num_operations = 0;
  std::array<WireText<48>, most_plugin_operations> operations{};
};

/// The greeting of this build. A change of the messages that keeps their sizes increases `messages`.
inline PluginGreeting plugin_greeting(const std::string& version) {
  constexpr int messages = 1;
  PluginGreeting greeting;
  put_text(greeting.build, "zeroproof " + version + " with messages " + std::to_string(messages) +
                               "/" + std::to_string(sizeof(PluginRequest)) + "/" +
                               std::to_string(sizeof(PluginReply)) + "/" +
                               std::to_string(sizeof(PluginHello)));
  return greeting;
}

/// Descriptors of the process.
inline constexpr int plugin_socket = 3;
inline constexpr int plugin_memory = 4;
/// Its exit code if its connection is gone: the library closed a descriptor of the harness.
inline constexpr int plugin_connection_lost = 96;
/// The operation name of a whole step.
inline constexpr const char* whole_step_name = "step";

}  // namespace zeroproof::verification
