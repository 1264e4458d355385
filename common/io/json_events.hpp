#pragma once
// JSON as a sequence of events, for what is checked while it is read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zeroproof {

/// Receives what a text holds. Each but the last returns whether to go on.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(std::int64_t value) = 0;  ///< below 0
  virtual bool number_unsigned(std::uint64_t value) = 0;
  virtual bool number_float(double value, const std::string& text) = 0;
  virtual bool string(std::string& value) = 0;
  virtual bool start_object() = 0;
  virtual bool key(std::string& value) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  /// The character before `position` is wrong, and `message` says how.
  virtual void parse_error(std::size_t position, const std::string& message) = 0;
};

/// Reads the text from its beginning until it ends, is wrong, or an event returned false.
void read_json(std::string_view text, JsonEvents& events);

}  // namespace zeroproof
