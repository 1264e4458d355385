// fast_math_check LIBRARY     R3 with a real library linked with -Ofast: loading it changes the
// floating-point environment of this process, and every computing function must then throw a
// readable error. A separate program, because the change would affect other tests. Exit status: 0
// passed, 1 failed, 77 the library does not change the environment here.

#include <dlfcn.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/host/operations.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace zeroproof;

namespace {

int failed = 0;

void check(bool holds, const std::string& what) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", what.c_str());
  if (!holds) ++failed;
}

/// The message of the fp_environment error at the end of the call; "" without an error, another
/// error unchanged.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return (error.code() == ErrorCode::fp_environment ? "" : "another error: ") +
           std::string(error.what());
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// "problem (why); remedy", with the problem in words and the likely cause in the remedy.
bool readable(const std::string& text) {
  return has(text, "floating-point environment") ||
                 (has(text, "flush-to-zero is on") && has(text, "denormals-are-zero is on"))
             ? has(text, " (") && has(text, "rule R3") && has(text, "); ") && has(text, "-Ofast")
             : false;
}

std::string in_new_thread() {
  std::string text;
  std::thread thread([&] { text = refusal([] { require_fp_environment("host worker 3"); }); });
  thread.join();
  return text;
}

std::string in_parallel_for() {
  return refusal(
      [] { parallel_for(3, 50, [](std::int64_t) { require_fp_environment("rank 2"); }); });
}

/// A host implementation on its OpenMP workers; enough blocks for all of them.
std::string in_host_implementation(int threads) {
  std::vector<float> values(200000, 1.0F);
  Exec exec;
  exec.num_threads = threads;
  return refusal([&] { cuda::host::clip(exec, 0.5F, values, values); });
}

bool subnormals_survive() {
  volatile float tiny = std::numeric_limits<float>::min();
  tiny = tiny * 0.5F;
  return tiny != 0.0F;
}

void check_clean(const std::string& when) {
  check(fp_environment_ok() && fp_environment_problem().empty(),
        when + ": this thread is as it should be");
  check(subnormals_survive(), when + ": subnormals survive");
  check(in_new_thread().empty() && in_parallel_for().empty(),
        when + ": new threads are as they should be");
}

void check_refused(const std::string& text, const std::string& who) {
  check(readable(text), who + " refuses: " + (text.empty() ? "(it did not)" : text));
}

#if defined(__x86_64__)
/// The workers of an OpenMP team keep the state of their creation, so every one has to be restored.
void restore(unsigned state) {
  _mm_setcsr(state);
#pragma omp parallel num_threads(3)
  _mm_setcsr(state);
}

int run(const char* library) {
  check_clean("before loading");
  const unsigned before = _mm_getcsr();
  void* handle = ::dlopen(library, RTLD_NOW);
  if (handle == nullptr) {
    std::printf("FAILED the library cannot be loaded: %s\n", ::dlerror());
    return 1;
  }
  if (_mm_getcsr() == before) {
    std::printf(
        "skipped: this compiler no longer changes the environment of a process that loads such a "
        "library\n");
    return 77;
  }
  check(!subnormals_survive(),
        "after loading: subnormals are flushed, without anybody asking for it");
  check(fp_environment_problem() == "flush-to-zero is on, denormals-are-zero is on",
        "after loading: both are named");
  check_refused(refusal([] { require_fp_environment("rank 0"); }),
                "the thread that loaded the library");
  check_refused(in_new_thread(), "a thread created afterwards");
  check_refused(in_parallel_for(), "parallel_for");
  check_refused(in_host_implementation(1), "a host implementation on one thread");
  check_refused(in_host_implementation(3), "a host implementation on three threads");

  // The team was created with the wrong state. GNU's workers keep it, so restoring only this thread must not let them
  // compute; LLVM's take over the state of the thread that starts a region.
  _mm_setcsr(before);
  check_clean("this thread restored");
  const std::string team = in_host_implementation(3);
  check(team.empty() || readable(team),
        "this thread restored, the team not: " + (team.empty() ? "computes" : team));
  restore(before);
  check(in_host_implementation(1).empty() && in_host_implementation(3).empty(),
        "every worker restored: the host implementation computes again");
  check(::dlclose(handle) == 0, "the library can be closed");
  check_clean("after closing");
  return failed == 0 ? 0 : 1;
}
#else
int run(const char*) {
  std::printf("skipped: start-up code of this kind is known on x86-64 only\n");
  return 77;
}
#endif

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: fast_math_check LIBRARY\n");
    return 2;
  }
  return run(words[1]);
}
