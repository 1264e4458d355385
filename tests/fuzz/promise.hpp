#pragma once
// What fuzz targets hold a reader to, whatever it reads.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::tests {

/// Errors: std::logic_error, for a promise that was broken.
inline void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(what);
}

/// A refusal is one short sentence, "problem (why); remedy", that can be printed.
inline void promise_sentence(const Error& error) {
  const std::string text = error.what();
  const std::size_t why = text.find(" (");
  promise(why != std::string::npos && text.find("); ", why) != std::string::npos,
          "refusals are sentences");
  promise(text.size() < 1000, "refusals are short");
  promise(std::none_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
          "refusals can be printed");
}

}  // namespace zeroproof::tests
