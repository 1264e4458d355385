#pragma once
// What operations say of views that do not fit.

#include <cstddef>
#include <string>

namespace zeroproof::reference {

/// A number as an error message shows it; std::to_string would print 1e-40 as 0.000000.
std::string text(double value);

/// Throws invalid_argument unless two views that an operation walks together have the same number of
/// elements.
void check_same_numel(const char* operation, const char* first, std::size_t first_numel,
                      const char* second, std::size_t second_numel);

/// Throws invalid_argument unless a buffer that only some settings have is [numel] with them and empty
/// without.
void check_optional_buffer(const char* operation, const char* buffer, bool needed,
                           std::size_t buffer_numel, std::size_t numel);

}  // namespace zeroproof::reference
