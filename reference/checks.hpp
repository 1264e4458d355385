#pragma once
// Errors of operations for views that do not fit.

#include <cstddef>
#include <cstdint>
#include <string>

namespace zeroproof::reference {

/// A number for an error message; std::to_string would print 1e-40 as 0.000000.
std::string text(double value);

/// Throws invalid_argument unless two views that an operation reads element by element have the
/// same number of elements.
void check_same_numel(const char* operation, const char* first, std::size_t first_numel,
                      const char* second, std::size_t second_numel);

/// Throws invalid_argument unless an optional buffer is [numel] where it is needed and empty where
/// it is not.
void check_optional_buffer(const char* operation, const char* buffer, bool needed,
                           std::size_t buffer_numel, std::size_t numel);

/// Throws invalid_argument unless a view is a matrix of rows by columns, 0 or more of each.
void check_matrix(const char* operation, const char* buffer, std::size_t buffer_numel,
                  std::int64_t rows, std::int64_t columns);

}  // namespace zeroproof::reference
