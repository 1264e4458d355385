// A report is complete or unchanged, and a report that cannot be written is an error.

#include <doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/report/report_files.hpp"

namespace report_files_test {

namespace {

using namespace zeroproof::tests;
namespace fs = std::filesystem;

constexpr const char* quick =
    "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1 --steps 1 --report ";

std::string program() { return quoted(build_folder() + "/zeroproof"); }

/// Runs shell text; CliResult has its output.
CliResult run_shell(const std::string& script) {
  return run_cli("--version >/dev/null; " + script);
}

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("report files: a full disk keeps the earlier report, with one sentence") {
  const TemporaryFolder folder;
  const std::string report = folder.write("report.json", "an earlier one");
  const CliResult full = run_shell("((ulimit -f 1; " + program() + " verify " + quick +
                                   quoted("text,json:" + report) + ") | cat)");
  CHECK(full.out.find("1 pass") != std::string::npos);  // the text report is complete
  CHECK(full.err.find("report.json cannot be written") != std::string::npos);
  CHECK(read_file(report) == "an earlier one");
  CHECK(entries(folder.file("")) == 1);
  const CliResult code =
      run_shell("(ulimit -f 1; " + program() + " verify " + quick + quoted("json:" + report) + ")");
  CHECK(code.exit_code == 2);
}

TEST_CASE("report files: a failed report does not prevent the other") {
  const TemporaryFolder folder;
  const std::string good = folder.file("good.xml");
  const CliResult result =
      run_cli(std::string("verify ") + quick + quoted("text,json:/dev/full,junit:" + good));
  CHECK(result.exit_code == 2);
  CHECK(result.out.find("1 pass") != std::string::npos);
  CHECK(result.out.find("report: " + good) != std::string::npos);
  CHECK(result.out.find("report: /dev/full") == std::string::npos);
  CHECK(read_file(good).find("</testsuites>") != std::string::npos);
}

TEST_CASE("report files: a report replaces its file, also through a link, and keeps the umask") {
  const TemporaryFolder folder;
  const std::string report = folder.write("report.json", "an earlier one");
  const std::string link = folder.file("link.json");
  fs::create_symlink("report.json", link);
  CHECK(run_shell("umask 027; " + program() + " verify " + quick + quoted("json:" + link))
            .exit_code == 0);
  CHECK(fs::is_symlink(link));
  CHECK(nlohmann::json::parse(read_file(report)).at("summary").at("pass") == 1);
  struct stat status {};
  REQUIRE(::stat(report.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(entries(folder.file("")) == 2);
}

TEST_CASE("report files: missing folders are created, devices are written in place") {
  const TemporaryFolder folder;
  const std::string report = folder.file("a/b/report.json");
  CHECK(run_cli(std::string("verify ") + quick + quoted("json:" + report)).exit_code == 0);
  CHECK(nlohmann::json::parse(read_file(report)).at("summary").at("pass") == 1);
  CHECK(run_cli(std::string("verify ") + quick + "json:/dev/null").exit_code == 0);
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("report files: a pipe made during the run is replaced, one from before is written") {
  const TemporaryFolder folder;
  const std::string late = folder.file("late"), link = folder.file("link"),
                    old = folder.file("old");
  REQUIRE(::mkfifo(old.c_str(), 0600) == 0);
  for (const std::string& file : {late, link, old})
    zeroproof::verification::check_report_file(file);
  REQUIRE(::mkfifo(late.c_str(), 0600) == 0);
  fs::create_symlink(late, link);
  // Without readers, opening a pipe would wait.
  const int late_reader = ::open(late.c_str(), O_RDWR), old_reader = ::open(old.c_str(), O_RDWR);
  for (const std::string& file : {link, late, old})
    zeroproof::verification::write_report_file(file, "{}");
  for (const std::string& file : {link, late}) {
    CHECK(fs::is_regular_file(fs::symlink_status(file)));
    CHECK(read_file(file) == "{}");
  }
  char got[8] = {};
  CHECK(::read(old_reader, got, sizeof(got)) == 2);
  CHECK(std::string(got) == "{}");
  ::close(late_reader);
  ::close(old_reader);
}

TEST_CASE("report files: full standard output is exit 2 and one sentence, for every command") {
  for (const char* arguments : {"verify op/clip/host/x86-64/fill:zero", "list byte_gpt_tiny",
                                "--help", "--version", "explain", "plan byte_gpt_tiny", "doctor"}) {
    CAPTURE(arguments);
    const CliResult result = run_shell("(" + program() + " " + arguments + " >/dev/full)");
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("standard output could not be written") != std::string::npos);
  }
}

TEST_CASE("report files: a file named - does not select standard output") {
  const CliResult refused = run_cli("plan byte_gpt_tiny --json -");
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("use /dev/stdout") != std::string::npos);
  CHECK(run_cli("plan byte_gpt_tiny --json /dev/stdout").out.find("\"zeroproof-plan/1\"") !=
        std::string::npos);
  CHECK_FALSE(fs::exists("-"));
}

TEST_CASE("report files: an open descriptor is appended to, never truncated") {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  const auto said = [&](const std::string& file) {
    std::ofstream(out) << "before\n";
    const std::string arguments = " plan byte_gpt_tiny --json " + file;
    const CliResult result =
        run_shell("(" + program() + arguments + " 3>>" + quoted(out) + " >>" + quoted(out) + ")");
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return read_file(out);
  };
  const std::string plain = said(quoted(folder.file("json")));
  const std::string json = read_file(folder.file("json"));
  CHECK(json.find("\"zeroproof-plan/1\"") != std::string::npos);
  fs::create_symlink("/dev/fd/3", folder.file("link"));
  for (const std::string& file : {std::string("/dev/stdout"), std::string("/dev/fd/3"),
                                  std::string("/proc/self/fd/1"), quoted(folder.file("link"))}) {
    CAPTURE(file);
    const std::string both = said(file);
    CHECK(both.starts_with("before\n"));
    CHECK(both.find(json) != std::string::npos);
    CHECK(both.size() == plain.size() + json.size());
  }
  expect_refusal("plan byte_gpt_tiny --json /dev/fd/9",
                 "/dev/fd/9 cannot be written: Bad file descriptor");
  expect_refusal("plan byte_gpt_tiny --json /dev/stdin",
                 "/dev/stdin cannot be written: Bad file descriptor");
}

}  // namespace report_files_test
