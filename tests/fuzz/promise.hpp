#pragma once
// Invariants that fuzz targets check for every input of a reader.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::tests {

/// Errors: std::logic_error, if the invariant is violated.
inline void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(what);
}

/// An error is one short printable sentence, "problem (reason); remedy".
inline void promise_sentence(const Error& error) {
  const std::string text = error.what();
  const std::size_t why = text.find(" (");
  promise(why != std::string::npos && text.find("); ", why) != std::string::npos,
          "errors are sentences");
  promise(text.size() < 1000, "errors are short");
  promise(std::none_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
          "errors are printable");
}

}  // namespace zeroproof::tests
