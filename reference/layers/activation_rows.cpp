#include "reference/layers/activation_rows.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::reference {

ActivationRows check_rows(const char* operation, std::int64_t columns, std::size_t y_numel) {
  ZP_CHECK(columns >= 1, ErrorCode::invalid_argument,
           std::string(operation) + ": a row has " + std::to_string(columns) + " columns",
           "the number of rows is undefined", "pass at least one column");
  const auto numel = static_cast<std::int64_t>(y_numel);
  ZP_CHECK(numel % columns == 0, ErrorCode::invalid_argument,
           std::string(operation) + ": " + std::to_string(numel) +
               " elements are not whole rows of " + std::to_string(columns),
           "the last row would be incomplete", "pass whole rows");
  return {columns, numel / columns};
}

void check_elements(const char* operation, const char* buffer, std::size_t buffer_numel,
                    std::int64_t numel) {
  ZP_CHECK(static_cast<std::int64_t>(buffer_numel) == numel, ErrorCode::invalid_argument,
           std::string(operation) + ": " + buffer + " has " + std::to_string(buffer_numel) +
               " elements instead of " + std::to_string(numel),
           "every row has its part of it", "pass views of the same rows and columns");
}

void check_optional_elements(const char* operation, const char* buffer, std::size_t buffer_numel,
                             std::int64_t numel) {
  if (buffer_numel != 0) check_elements(operation, buffer, buffer_numel, numel);
}

}  // namespace zeroproof::reference
