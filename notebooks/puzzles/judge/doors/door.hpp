#pragma once
// What every door has: zeroproof's errors, and a call whose exceptions stay on this side of it.

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

namespace door {

enum : std::int32_t { returned, refused, raised };

/// Whether the call returned, refused its arguments as a contract does, or raised something else; what it said.
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

}  // namespace door
}  // namespace zeroproof
