// zeroproof: the command line.

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cli/command_line.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/cli/program/standard_streams.hpp"
#include "verification/report/source_state.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/mpi_world.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace {

using namespace zeroproof;

/// OpenMP reads its wait policy before main begins, and its default is to spin. Ranks share the cores of one
/// machine here, so a spinning worker steals the time of the one it waits for: start again with workers that
/// sleep.
void make_idle_workers_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe",
          argv);  // returns only if that is impossible; spinning is slow, not wrong
}

/// Steps allocate and free the same megabytes again and again. By default malloc returns them to
/// the system each time, and every page is faulted in and zeroed again: a tenth of a long run.
void keep_freed_memory() {
#if defined(__GLIBC__)
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest permitted value
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

/// Steps keep several files open for every rank whose state is in files; the usual soft limit of
/// 1,024 is below the hard one.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool command_ended = false;

/// Called by std::exit. If no thread can be created, libgomp calls exit(1); but exit code 1 of this
/// program means that a comparison failed.
void report_exit_of_library() {
  if (command_ended) return;
  std::fflush(stdout);
  std::fputs(
      "zeroproof: a library ended the program (its message is above); raise the system limits, or "
      "run fewer cases at once with --jobs\n",
      stderr);
  ::_exit(3);
}

/// The results of a run that went well must have arrived somewhere; a worse exit code stays.
int finished(int code) {
  try {
    verification::flush_standard_output();
  } catch (const Error& error) {
    std::fprintf(stderr, "zeroproof: %s\n", error.what());
    return code == 0 ? verification::exit_code_of(error) : code;
  }
  return code;
}

/// Exit code of the whole program; prints errors.
int run(int argc, char** argv, std::unique_ptr<verification::MpiLife>& mpi) {
  try {
    verification::require_standard_streams();
    if (verification::inside_mpi_job()) {
      verification::RankNotes::started();
      mpi = std::make_unique<verification::MpiLife>(&argc, &argv);
      mpi->require_all_ranks();
      verification::RankNotes::joined();
    }
    return finished(verification::run_command_line(argc, argv));
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool rank = verification::inside_mpi_job();
    const bool named = !rank || what.starts_with("rank ");
    const std::string who =
        named ? "" : " [rank " + std::to_string(verification::mpi_job_rank()) + "]";
    // A rank whose error has its origin in another one leaves the message to that one.
    if (!rank || error.origin() == ErrorOrigin::own)
      std::fprintf(stderr, "zeroproof%s: %s\n", who.c_str(), what.c_str());
    return verification::exit_code_of(error);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "zeroproof: %s\n", verification::out_of_memory);
    return 3;
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string file = error.path1().string();
    std::fprintf(stderr,
                 "zeroproof: %s cannot be used: %s (an input or output of the command); use "
                 "another name or folder\n",
                 sentence(file.empty() ? "the working folder" : file).c_str(),
                 error.code().message().c_str());
    return 2;
  } catch (const std::system_error& error) {
    std::fprintf(
        stderr,
        "zeroproof: a system call failed: %s (usually the creation of a thread or a lock); "
        "raise the system limits, or run fewer cases at once with --jobs\n",
        error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zeroproof: %s (an unexpected error); report it with the command line\n",
                 sentence(error.what()).c_str());
    return 9;
  }
}

}  // namespace

int main(int argc, char** argv) {
  make_idle_workers_sleep(argv);
  keep_freed_memory();
  raise_file_limit();
  std::signal(SIGXFSZ, SIG_IGN);  // beyond a limit of file sizes a write fails with an error
  std::atexit(report_exit_of_library);
  verification::set_source_stamp(verification::source_stamp);
  std::unique_ptr<verification::MpiLife> mpi;
  const int code = run(argc, argv, mpi);
  command_ended = true;
  if (verification::inside_mpi_job()) verification::RankNotes::ended(code);
  if (mpi) mpi->set_exit_code(code);
  return code;
}
