#pragma once
// Receives the events of a JSON parser and builds the tensors of a header.

#include <nlohmann/json.hpp>
#include <string>

#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

/// A state machine over the three levels of a header. Anything else is rejected at once, so neither
/// depth nor length of the text can cost more than the text itself.
class SafetensorsSax final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  SafetensorsSax(const std::string& label, const SafetensorsLimits& limits,
                 SafetensorsHeader& header)
      : label_(label), limits_(limits), header_(header) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(std::int64_t value) override { not_whole(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override;
  bool number_float(double, const std::string& text) override { not_whole(text); }
  bool string(std::string& value) override;
  bool binary(binary_t&) override { return false; }  // not in texts
  bool start_object(std::size_t) override;
  bool key(std::string& value) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override;

 private:
  enum class At {
    root,    ///< before the header's own object
    names,   ///< a key of the header, or its end
    entry,   ///< before the object of a tensor
    fields,  ///< a key of a tensor's object, or its end
    dtype,
    shape,  ///< before the array
    dimensions,
    offsets,  ///< before the array
    positions,
    metadata,  ///< before the object
    metadata_keys,
    metadata_value,
    end
  };

  [[noreturn]] void unexpected(const std::string& what) const;
  [[noreturn]] void not_whole(const std::string& number) const;
  [[noreturn]] void refuse(const std::string& problem, const std::string& why) const;
  std::string where() const;
  SafeTensor& tensor() { return header_.tensors.back(); }
  void begin_tensor(std::string& name);
  void begin_field(const std::string& field);
  void finish_tensor();

  const std::string& label_;
  const SafetensorsLimits& limits_;
  SafetensorsHeader& header_;
  At at_ = At::root;
  bool has_metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;  ///< of the tensor in hand
  int positions_ = 0;  ///< read so far in data_offsets
  std::string metadata_key_;
};

}  // namespace zeroproof
