#include "reference/checks.hpp"

#include <sstream>

#include "common/base/error.hpp"

namespace zeroproof::reference {

std::string text(double value) {
  std::ostringstream stream;
  stream.precision(9);
  stream << value;
  return stream.str();
}

void check_same_numel(const char* operation, const char* first, std::size_t first_numel,
                      const char* second, std::size_t second_numel) {
  ZP_CHECK(first_numel == second_numel, ErrorCode::invalid_argument,
           std::string(operation) + ": " + first + " has " + std::to_string(first_numel) +
               " elements and " + second + " has " + std::to_string(second_numel),
           "the operation pairs their elements", "pass views of the same length");
}

void check_optional_buffer(const char* operation, const char* buffer, bool needed,
                           std::size_t buffer_numel, std::size_t numel) {
  if (needed) {
    check_same_numel(operation, "grad", numel, buffer, buffer_numel);
    return;
  }
  ZP_CHECK(
      buffer_numel == 0, ErrorCode::invalid_argument,
      std::string(operation) + ": " + buffer + " has " + std::to_string(buffer_numel) + " elements",
      "these options do not use this buffer", "pass an empty view, or set the options that use it");
}

void check_matrix(const char* operation, const char* buffer, std::size_t buffer_numel,
                  std::int64_t rows, std::int64_t columns) {
  const auto numel = static_cast<std::int64_t>(buffer_numel);
  // Divided, because a product of wrong extents may overflow.
  const bool fits = columns == 0 ? numel == 0 : numel % columns == 0 && numel / columns == rows;
  ZP_CHECK(rows >= 0 && columns >= 0 && fits, ErrorCode::invalid_argument,
           std::string(operation) + ": " + buffer + " has " + std::to_string(numel) +
               " elements for " + std::to_string(rows) + " rows and " + std::to_string(columns) +
               " columns",
           "a matrix has rows * columns elements", "pass its extents, 0 or more");
}

}  // namespace zeroproof::reference
