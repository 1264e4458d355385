// Memory that runs out at any request of a run of three steps: an error that says how much was asked for and what for,
// and the next run is as good as ever.

#include <doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "tests/verification/tools/train/job_support.hpp"
#include "verification/cli/program/folder_names.hpp"
#include "verification/cli/program/out_of_memory.hpp"
#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

std::atomic<std::int64_t> requests{0};
std::atomic<std::int64_t> fails_at{-1};
std::atomic<std::size_t> least_bytes{0};

void* request(std::size_t num_bytes, std::size_t alignment) {
  if (fails_at >= 0 && num_bytes >= least_bytes && requests++ == fails_at) throw OutOfMemory(num_bytes);
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment, num_bytes == 0 ? 1 : num_bytes) != 0) throw OutOfMemory(num_bytes);
  return memory;
}

}  // namespace

// <new> has these where a compiler is told to call them, as Clang is not.
void operator delete(void* memory, std::size_t) noexcept;
void operator delete[](void* memory, std::size_t) noexcept;
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept;
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept;

void* operator new(std::size_t num_bytes) { return request(num_bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t num_bytes) { return request(num_bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t num_bytes, std::align_val_t to) {
  return request(num_bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t num_bytes, std::align_val_t to) {
  return request(num_bytes, static_cast<std::size_t>(to));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

struct Outcome {
  bool passed = false;
  std::string said;
};

/// The case, with the k-th request of at least so many bytes failing; -1: none.
Outcome run(const std::string& id, std::int64_t k, std::size_t bytes) {
  VerifyOptions options;
  options.patterns = {id};
  options.jobs = 1;
  options.overrides = [](RunConfig& config) { config.steps = 3; };
  const Selection selection = select_cases(options);
  REQUIRE(selection.size() == 1);
  Outcome outcome;
  const ProgressSink quiet = [](double, const std::string&) {};
  requests = 0;
  least_bytes = bytes;
  fails_at = k < 0 ? std::int64_t{1} << 60 : k;
  try {
    const RunReport report = run_selection(options, selection, quiet);
    fails_at = -1;
    outcome.passed = report.results.front().status == Status::pass;
    outcome.said = report.results.front().reason;
    CHECK((report.results.front().status == Status::pass || report.results.front().status == Status::error));
  } catch (const std::exception& error) {
    fails_at = -1;
    outcome.said = error.what();
  }
  return outcome;
}

void fail_each(const std::string& id, std::size_t bytes, std::int64_t stride) {
  REQUIRE(run(id, -1, bytes).passed);
  const std::int64_t count = requests;
  const auto open_files = names_in("/proc/self/fd");
  std::int64_t silent = 0;
  for (std::int64_t k = 0; k < count; k += stride) {
    const Outcome outcome = run(id, k, bytes);
    // Some cannot be told: what is asked for to say that all is well.
    if (outcome.passed) {
      ++silent;
      continue;
    }
    CAPTURE(k);
    CAPTURE(outcome.said);
    CHECK(outcome.said.find("no memory for ") != std::string::npos);
    CHECK(outcome.said.find(" bytes of ") != std::string::npos);
  }
  MESSAGE(id << ": " << count << " requests of " << bytes << " bytes or more, every " << stride
             << "th failed, " << silent << " without consequence");
  CHECK(silent < count / stride / 10 + 1);
  CHECK(names_in("/proc/self/fd") == open_files);
  CHECK(run(id, -1, bytes).passed);
}

}  // namespace

TEST_CASE("every request for a buffer fails once") {
  fail_each("byte_gpt_tiny/adamw/host/stage2/self/bf16/lockstep/bucket:4096/omp:1", 4096, 1);
}

TEST_CASE("requests of any size fail, some of them") {
  fail_each("byte_gpt_tiny/adamw/host/stage2/self/bf16/lockstep/bucket:4096/omp:1", 0, 29);
}

TEST_CASE("over threads, while others wait") {
  fail_each("byte_gpt_tiny/adamw/host/stage2/threads:2/bf16/lockstep/bucket:4096/omp:1", 4096, 3);
}

TEST_CASE("a folder that is listed is closed again when there is no memory for its names") {
  const auto open_files = names_in("/proc/self/fd");
  int refused = 0;
  for (bool listed = false; !listed; ++refused) {
    requests = 0;
    least_bytes = 0;
    fails_at = refused;
    try {
      listed = names_in("/proc/self/fd").has_value();
    } catch (const std::bad_alloc&) {  // and once more, with one request more
    }
    fails_at = -1;
  }
  CHECK(refused > 3);
  CHECK(names_in("/proc/self/fd") == open_files);
}

TEST_CASE("slow: every request of any size fails once") {
  fail_each("byte_gpt_tiny/adamw/host/stage2/self/bf16/lockstep/bucket:4096/omp:1", 0, 1);
}

TEST_CASE("a job that runs out of memory leaves checkpoints that are whole, and goes on from them") {
  const tests::TinyTraining run(DType::bf16, "adamw", [](RunConfig& config) { config.steps = 3; });
  const tests::TemporaryFolder folder = tests::TemporaryFolder::in_memory();
  tests::JobPlan plan{folder.file("whole")};
  plan.save_every = 1;
  requests = 0;
  least_bytes = 0;
  fails_at = std::int64_t{1} << 60;
  const auto spec = [&] {
    CaseSpec on_one = run.spec(1, 2);
    on_one.world = {WorldSpec::Kind::self, 1};  // the same requests in the same order every time
    return on_one;
  };
  const std::string whole = state_digest(tests::run_job(run, spec(), plan).state);
  fails_at = -1;
  const std::int64_t count = requests;
  constexpr std::int64_t points = 150;
  std::int64_t refused = 0, saved = 0;
  for (std::int64_t i = 0; i < points; ++i) {
    const std::int64_t k = count * i / points;
    CAPTURE(k);
    plan.folder = folder.file("a" + std::to_string(i));
    plan.resume = false;
    requests = 0;
    fails_at = k;
    try {
      tests::run_job(run, spec(), plan);
      fails_at = -1;
    } catch (const std::exception& error) {
      fails_at = -1;
      ++refused;
      const std::string said = error.what();
      CAPTURE(said);
      CHECK(said.find("no memory for ") != std::string::npos);
    }
    const std::vector<std::int64_t> steps = std::filesystem::is_directory(plan.folder)
                                                ? CheckpointRoot(plan.folder).steps()
                                                : std::vector<std::int64_t>();
    for (const std::int64_t step : steps)
      CHECK_NOTHROW(CheckpointReader(CheckpointRoot(plan.folder), step).verify());
    saved += steps.empty() ? 0 : 1;
    plan.resume = true;
    CHECK(state_digest(tests::run_job(run, run.spec(2, 1), plan).state) == whole);
  }
  MESSAGE(count << " requests, " << points << " of them failed: " << refused << " errors, " << saved
                << " runs with checkpoints by then");
  CHECK(refused > points / 2);
  CHECK(saved > points / 4);
}
