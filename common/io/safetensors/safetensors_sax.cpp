#include "common/io/safetensors/safetensors_sax.hpp"

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_header.hpp"

namespace zeroproof {
namespace {

constexpr std::uint64_t largest_number = std::uint64_t{1} << 53;  // exact in every JSON library

/// The reason in the parser's message, short and printable.
std::string short_reason(const std::string& message) {
  const std::size_t dash = message.find(" - ");
  const std::size_t bracket = message.find("] ");
  const std::size_t begin = dash != std::string::npos      ? dash + 3
                            : bracket != std::string::npos ? bracket + 2
                                                           : 0;
  std::string reason = message.substr(begin, 200);
  reason = reason.substr(0, reason.find("; last read"));
  const std::string shown = shown_name(reason);
  return shown.substr(1, shown.size() - 2);
}

}  // namespace

void SafetensorsSax::refuse(const std::string& problem, const std::string& why) const {
  fail(ErrorCode::io, label_ + ": " + problem, why, "write the file again");
}

std::string SafetensorsSax::where() const {
  switch (at_) {
    case At::root:
    case At::names:
    case At::end:
      return "the header";
    case At::metadata:
    case At::metadata_keys:
      return "__metadata__";
    case At::metadata_value:
      return "__metadata__ " + shown_name(metadata_key_);
    case At::dtype:
      return "dtype of tensor " + shown_name(header_.tensors.back().name);
    case At::shape:
    case At::dimensions:
      return "shape of tensor " + shown_name(header_.tensors.back().name);
    case At::offsets:
    case At::positions:
      return "data_offsets of tensor " + shown_name(header_.tensors.back().name);
    case At::entry:
    case At::fields:
      break;
  }
  return "tensor " + shown_name(header_.tensors.back().name);
}

void SafetensorsSax::unexpected(const std::string& what) const {
  const char* wanted = "an object";
  if (at_ == At::dtype || at_ == At::metadata_value) wanted = "a text";
  if (at_ == At::shape || at_ == At::offsets) wanted = "an array";
  if (at_ == At::dimensions || at_ == At::positions) wanted = "whole numbers";
  refuse(where() + " holds " + what + " instead of " + wanted,
         "the format does not allow it there");
}

void SafetensorsSax::not_whole(const std::string& number) const {
  if (at_ != At::dimensions && at_ != At::positions) unexpected("a number");
  refuse(where() + " has " + number.substr(0, 40), "it must be a whole number from 0 to 2^53");
}

bool SafetensorsSax::number_unsigned(std::uint64_t value) {
  if (value > largest_number) not_whole(std::to_string(value));
  const auto number = static_cast<std::int64_t>(value);
  if (at_ == At::dimensions) {
    if (static_cast<std::int64_t>(tensor().shape.size()) == limits_.rank) {
      refuse(where() + " has more than " + std::to_string(limits_.rank) + " dimensions",
             "no tensor has so many");
    }
    tensor().shape.push_back(number);
    return true;
  }
  if (at_ != At::positions) unexpected("a number");
  if (positions_ == 2)
    refuse(where() + " has more than two numbers", "they are a begin and an end");
  (positions_ == 0 ? tensor().begin : tensor().end) = number;
  ++positions_;
  return true;
}

bool SafetensorsSax::string(std::string& value) {
  if (at_ == At::metadata_value) {
    if (!header_.metadata.emplace(metadata_key_, std::move(value)).second) {
      refuse(where() + " appears twice", "readers would disagree about which one is valid");
    }
    at_ = At::metadata_keys;
    return true;
  }
  if (at_ != At::dtype) unexpected("a text");
  const std::optional<SafeDType> dtype = parse_safe_dtype(value);
  if (!dtype) refuse(where() + " is " + shown_name(value), "the size of its elements is unknown");
  tensor().dtype = *dtype;
  at_ = At::fields;
  return true;
}

bool SafetensorsSax::start_object(std::size_t) {
  switch (at_) {
    case At::root:
      at_ = At::names;
      return true;
    case At::entry:
      at_ = At::fields;
      return true;
    case At::metadata:
      at_ = At::metadata_keys;
      return true;
    default:
      unexpected("an object");
  }
}

bool SafetensorsSax::key(std::string& value) {
  switch (at_) {
    case At::names:
      begin_tensor(value);
      return true;
    case At::fields:
      begin_field(value);
      return true;
    case At::metadata_keys:
      if (static_cast<std::int64_t>(header_.metadata.size()) == limits_.metadata_entries) {
        refuse(where() + " has more than " + std::to_string(limits_.metadata_entries) + " entries",
               "each costs more memory than its text");
      }
      metadata_key_ = std::move(value);
      at_ = At::metadata_value;
      return true;
    default:
      unexpected("a key");
  }
}

void SafetensorsSax::begin_tensor(std::string& name) {
  if (name == "__metadata__") {
    if (has_metadata_)
      refuse("__metadata__ appears twice", "readers would disagree about which one is valid");
    has_metadata_ = true;
    at_ = At::metadata;
    return;
  }
  const std::string problem = safetensors_name_problem(name, limits_);
  if (!problem.empty()) {
    refuse("the tensor name " + shown_name(name) + " " + problem,
           "reports and other files name tensors");
  }
  if (static_cast<std::int64_t>(header_.tensors.size()) == limits_.tensors) {
    refuse("the header has more than " + std::to_string(limits_.tensors) + " tensors",
           "each costs memory, even without data");
  }
  header_.tensors.emplace_back().name = std::move(name);
  has_dtype_ = has_shape_ = has_offsets_ = false;
  at_ = At::entry;
}

void SafetensorsSax::begin_field(const std::string& field) {
  const auto begin = [&](bool& seen, At next) {
    if (seen)
      refuse(where() + " has " + field + " twice",
             "readers would disagree about which one is valid");
    seen = true;
    at_ = next;
  };
  if (field == "dtype") return begin(has_dtype_, At::dtype);
  if (field == "shape") return begin(has_shape_, At::shape);
  if (field == "data_offsets") return begin(has_offsets_, At::offsets);
  refuse(where() + " has the key " + shown_name(field),
         "only dtype, shape and data_offsets are valid");
}

bool SafetensorsSax::start_array(std::size_t) {
  if (at_ != At::shape && at_ != At::offsets) unexpected("an array");
  positions_ = 0;
  at_ = at_ == At::shape ? At::dimensions : At::positions;
  return true;
}

bool SafetensorsSax::end_array() {
  if (at_ == At::positions && positions_ != 2) {
    refuse(where() + " has " + std::to_string(positions_) + " of two numbers",
           "they are a begin and an end");
  }
  at_ = At::fields;
  return true;
}

bool SafetensorsSax::end_object() {
  if (at_ == At::fields) finish_tensor();
  at_ = at_ == At::names ? At::end : At::names;
  return true;
}

void SafetensorsSax::finish_tensor() {
  const SafeTensor& t = tensor();
  for (const auto& [seen, field] : {std::pair{has_dtype_, "dtype"}, std::pair{has_shape_, "shape"},
                                    std::pair{has_offsets_, "data_offsets"}}) {
    if (!seen) refuse(where() + " has no " + field, "it is required");
  }
  if (t.end < t.begin) {
    refuse(where() + " ends at " + std::to_string(t.end) + " before it begins at " +
               std::to_string(t.begin),
           "its data_offsets are reversed");
  }
  const std::optional<std::int64_t> numel = safetensors_numel(t.shape);
  if (!numel || *numel > static_cast<std::int64_t>(largest_number) / num_bytes(t.dtype)) {
    refuse(where() + " has a shape of more than 2^53 bytes", "no file holds that many");
  }
  if (*numel * num_bytes(t.dtype) != t.num_bytes()) {
    refuse(where() + " has " + std::to_string(t.num_bytes()) + " bytes but its shape needs " +
               std::to_string(*numel * num_bytes(t.dtype)),
           "elements would be missing or extra");
  }
}

bool SafetensorsSax::parse_error(std::size_t position, const std::string&,
                                 const nlohmann::detail::exception& error) {
  // `position` counts characters read, of which the last was invalid; 8 bytes precede the text.
  refuse("byte " + std::to_string(position + 7) + " is not JSON: " + short_reason(error.what()),
         "the header cannot be understood");
}

}  // namespace zeroproof
