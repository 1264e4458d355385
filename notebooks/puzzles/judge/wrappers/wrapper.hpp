#pragma once
// Shared by all wrappers: zeroproof's errors, and a call that catches every exception.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

void fail(ErrorCode code, const std::string& problem, const std::string& why,
          const std::string& remedy) {
  throw Error(code, problem + " (" + why + "); " + remedy);
}

namespace wrapper {

enum : std::int32_t { returned, refused, raised };

/// Whether the call returned, rejected its arguments (invalid_argument) or threw; and its message.
template <class Call>
std::int32_t outcome_of(Call call, char* message, std::size_t size) {
  try {
    call();
    return returned;
  } catch (const Error& error) {
    std::snprintf(message, size, "%s", error.what());
    return error.code() == ErrorCode::invalid_argument ? refused : raised;
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, size, "something that is no exception");
  }
  return raised;
}

}  // namespace wrapper
}  // namespace zeroproof
