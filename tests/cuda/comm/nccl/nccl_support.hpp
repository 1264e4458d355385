#pragma once
// Ranks that are threads, with the fake NCCL between their simulated devices. Include doctest.h first.

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/threads.hpp"
#include "cuda/comm/nccl_communicator.hpp"
#include "cuda/comm/nccl_watch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/common/comm/thread_outcome.hpp"
#include "tests/cuda/comm/nccl/fake_nccl.hpp"
#include "tests/cuda/device/copies_support.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"

namespace zeroproof::nccl_test {

using zeroproof_test::Outcome;

/// Time limit of NCCL calls, and of barriers between ranks: a rank may need the first twice before
/// it queries the others.
inline constexpr std::chrono::milliseconds short_limit{300}, control_limit{1000};
inline constexpr std::chrono::seconds promptly{5};

/// The build defines the paths ZP_FAKE_NCCL_LIBRARY and ZP_INCOMPLETE_NCCL_LIBRARY.
inline const cuda::NcclLibrary& fake() {
  static const cuda::NcclLibrary library(ZP_FAKE_NCCL_LIBRARY);
  return library;
}

template <class Function>
Function* fake_function(const char* name) {
  void* const library = ::dlopen(ZP_FAKE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Plans failures of the fake while this exists.
class UsePlan {
 public:
  explicit UsePlan(const std::string& plan) {
    fake_function<void(const char*)>("zp_fake_nccl_plan")(plan.c_str());
  }
  ~UsePlan() { fake_function<void(const char*)>("zp_fake_nccl_plan")(""); }
  UsePlan(const UsePlan&) = delete;
  UsePlan& operator=(const UsePlan&) = delete;
};

/// Complaints of the fake since the last call.
inline std::string complaints() {
  return fake_function<const char*()>("zp_fake_nccl_complaints")();
}

/// In both orders of streams. Every call must be correct.
inline void check_ranks(int world_size, const std::function<void(Communicator& control)>& check) {
  for (const sim_test::StreamOrder order : sim_test::both_orders) {
    CAPTURE(world_size);
    const sim_test::UseOrder use(order);
    ThreadWorld world(world_size);
    copies_test::run_ranks_and_streams(world, check);
    CHECK(complaints().empty());
  }
}

/// Runs ranks of which some fail, and the remaining work of their streams.
inline Outcome run_failing(int world_size, const std::function<void(Communicator& control)>& work,
                           std::chrono::milliseconds limit = control_limit) {
  ThreadWorld world(world_size, limit);
  Outcome outcome = zeroproof_test::run(world, work);
  cuda::device::wait_for_stream();
  CHECK(outcome.time < limit + promptly);
  return outcome;
}

inline bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace zeroproof::nccl_test
