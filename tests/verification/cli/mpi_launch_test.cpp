#include <doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/training/gradients/grad_store.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/mpi_launch.hpp"

namespace mpi_launch_test {

using namespace zeroproof::verification;

namespace {

/// Sets environment variables and removes the others that a launcher could have set.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const char* name : names) ::unsetenv(name);
    for (const auto& variable : variables)
      ::setenv(variable.first.c_str(), variable.second.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : names) ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* names[] = {"OMPI_COMM_WORLD_SIZE",
                                          "OMPI_COMM_WORLD_RANK",
                                          "PMI_SIZE",
                                          "PMI_RANK",
                                          "PMIX_RANK",
                                          "SLURM_STEP_NUM_TASKS",
                                          "SLURM_NTASKS",
                                          "SLURM_PROCID",
                                          "ZP_HOSTFILE",
                                          "ZP_MPIRUN_ARGS"};
};

#if defined(ZP_HAVE_MPI)
/// Processes whose environment contains this text.
std::size_t processes_with(const std::string& text) {
  std::size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string environment = zeroproof::tests::read_file(entry.path() / "environ");
    count += environment.find(text) != std::string::npos ? 1 : 0;
  }
  return count;
}
#endif

void check_job(const std::vector<std::pair<std::string, std::string>>& variables, int size,
               int rank) {
  const Environment environment(variables);
  CHECK(mpi_job_size() == size);
  CHECK(mpi_job_rank() == rank);
  CHECK(inside_mpi_job() == (size > 0));
}

}  // namespace

TEST_CASE("mpi launch: detects the launcher of this process") {
  check_job({}, 0, 0);
  check_job({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}, 4,
            3);
  check_job({{"PMI_SIZE", "5"}, {"PMI_RANK", "2"}}, 5, 2);  // MPICH, and srun with PMI-2
  check_job({{"PMIX_RANK", "6"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "16"}}, 8, 6);
  check_job({{"PMIX_RANK", "6"}, {"SLURM_NTASKS", "16"}}, 16, 6);
  check_job({{"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "0"}}, 0, 0);  // a batch script
  // mpirun within an allocation: its own numbers count.
  check_job({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"SLURM_NTASKS", "16"}},
            2, 1);
}

TEST_CASE("mpi launch: passes the host file and other words to mpirun") {
  const std::string file =
      std::string(std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp") +
      "/zp_hosts_" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
  std::ofstream(file) << "localhost\n";
  using Words = std::vector<std::string>;
  const auto words = [](const std::string& hostfile) {
    Words all = mpirun_words(5, hostfile);
    all.erase(all.begin());
    if (!all.empty() && all.front() == "-disable-auto-cleanup")
      all.erase(all.begin());                            // MPICH, and
    if (all.back() == "sh") all.resize(all.size() - 4);  // a shell for each rank
    return all;
  };
  {
    const Environment environment({});
    CHECK(words("") == Words{"-n", "5"});
    CHECK(words(file) == Words{"-hostfile", file, "-n", "5"});
    CHECK_THROWS_AS(words(file + "x"), zeroproof::Error);
  }
  {
    const Environment environment(
        {{"ZP_HOSTFILE", file}, {"ZP_MPIRUN_ARGS", " --mca  plm_rsh_agent rsh "}});
    CHECK(words("") == Words{"-hostfile", file, "--mca", "plm_rsh_agent", "rsh", "-n", "5"});
  }
  {
    const Environment environment({{"ZP_HOSTFILE", file + "x"}});
    CHECK(words(file) == Words{"-hostfile", file, "-n", "5"});  // the flag precedes the others
    CHECK_THROWS_AS(words(""), zeroproof::Error);
  }
  std::remove(file.c_str());
}

TEST_CASE("mpi launch: an unstartable program is named") {
  try {
    run_mpirun({"/no/such/mpirun"}, "/dev/null", [] { return JobState::runs; });
    FAIL("it was started");
  } catch (const zeroproof::Error& error) {
    CHECK(error.code() == zeroproof::ErrorCode::unavailable);
    CHECK(std::string(error.what()).find("/no/such/mpirun cannot be started: No such file") == 0);
  }
}

TEST_CASE("mpi launch: returns the output and the status") {
  const zeroproof::tests::TemporaryFolder folder;
  const std::string output = folder.write("out", "older and longer than what is written");
  const Ended ended = run_mpirun({"sh", "-c", "echo out; echo err >&2; exit 3"}, output,
                                 [] { return JobState::runs; });
  CHECK(WEXITSTATUS(ended.status) == 3);
  CHECK(zeroproof::tests::read_file(output) == "out\nerr\n");
}

TEST_CASE("mpi launch: a stopped guard is continued") {
  int stopped = 0;
  const Ended ended = run_mpirun({"sh", "-c", "sleep 0.5; exit 3"}, "/dev/null", [&] {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t pid = 0; stopped == 0 && children >> pid; ++stopped) ::kill(pid, SIGSTOP);
    return JobState::runs;
  });
  CHECK(stopped == 1);
  CHECK(WEXITSTATUS(ended.status) == 3);
}

#if defined(ZP_HAVE_MPI)
TEST_CASE("mpi launch: ranks that MPI does not connect are refused") {
  const Environment environment({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  const zeroproof::tests::CliResult result = zeroproof::tests::run_cli("doctor");
  CHECK(result.exit_code == 3);
  CHECK(result.err.find("the launcher started 2 ranks, and ") != std::string::npos);
  CHECK(result.err.find(" connected 1 (mpirun and library are of different MPIs)") !=
        std::string::npos);
}

TEST_CASE("mpi launch: ranks end with the program that started them") {
  const zeroproof::tests::TemporaryFolder
      folder;  // its name marks the processes, in their environment
  const std::string mark = folder.file("mark");
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ZP_TEST_MARK", mark.c_str(), 1);
    std::vector<std::string> words = mpirun_words(2, "");
    words.insert(words.end(), {"sleep", "300"});
    run_mpirun(words, "/dev/null", [] { return JobState::runs; });
    ::_exit(0);
  }
  const auto count_within = [&](int seconds, const auto& good) {
    std::size_t count = processes_with(mark);
    for (int i = 0; i < 10 * seconds && !good(count); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      count = processes_with(mark);
    }
    return count;
  };
  CHECK(count_within(60, [](std::size_t count) { return count >= 3; }) >=
        3);  // mpirun and two ranks
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(count_within(30, [](std::size_t count) { return count == 0; }) == 0);
}

TEST_CASE(
    "mpi launch: ranks read the micro-batch gradients of their run, and refuse those of another") {
  const zeroproof::tests::TemporaryFolder folder;
  const std::string output = folder.write("out", "");
  const auto run_with = [&](const std::string& leaves) {
    std::vector<std::string> words = mpirun_words(2, "");
    const std::string id = "byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1";
    words.insert(words.end(), {zeroproof::tests::build_folder() + "/zeroproof", "verify", id});
    run_mpirun(words, output, [] { return JobState::runs; }, {{"ZP_MPI_LEAVES", leaves}});
    return zeroproof::tests::read_file(output);
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string run = "0123456789abcdef0123456789abcdef:";
  CHECK(contains(run_with(run + folder.write("garbage", std::string(10'000, 'x'))),
                 "is not a complete gradient file"));
  GradStore store(1 << 20);
  std::vector<float> values(100);
  const zeroproof::TensorView view{values.data(), zeroproof::DType::fp32, 100};
  store.keep({}, {view, 0, zeroproof::raw_digest(view.data, view.num_bytes())});
  const std::string path = store.seal();
  CHECK(contains(run_with(run + path),
                 "belongs to another run (gradients of another run would be compared"));
  CHECK(contains(run_with(to_hex(store.run()) + ":" + path),
                 "1 pass, 0 fail"));  // it has none
  CHECK(contains(run_with(run + folder.file("absent")),
                 "1 pass, 0 fail"));  // not available: computed
}
#endif

TEST_CASE("slow: mpi launch: mpirun that outlives its job is ended") {
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = run_mpirun({"sleep", "100"}, "/dev/null", [] { return JobState::over; });
  CHECK(ended.lingered);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  const Ended orderly =
      run_mpirun({"sh", "-c", "sleep 3; exit 4"}, "/dev/null", [] { return JobState::over; });
  CHECK(!orderly.lingered);
}

}  // namespace mpi_launch_test
