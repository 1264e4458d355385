// verify --evidence and evidence, as a user runs them, in a temporary git checkout of the sources.

#include <cstdlib>

#include "tests/support/skip.hpp"
#include "tests/verification/cli/cli_support.hpp"

namespace evidence_cli_test {

namespace {

using namespace zeroproof::tests;
namespace fs = std::filesystem;
using nlohmann::json;

const std::string three_ranks =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
const std::string operation = "op/clip/host/x86-64/fill:ties";

bool shell(const std::string& command) {
  return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0;
}

/// A git checkout with the source files of this one, as they are now; made once.
class Checkout {
 public:
  /// The checkout in its first state; skips the case if this one has no git.
  static const Checkout* fresh() {
    static const Checkout checkout;
    const bool usable =
        checkout.made_ && checkout.git("reset -q --hard first") && checkout.git("clean -fdq");
    if (!usable) skip_case("the sources are no git checkout");
    return usable ? &checkout : nullptr;
  }

  std::string path(const std::string& name) const { return folder_.file(name); }

  bool git(const std::string& words) const {
    return shell("cd " + quoted(path("")) +
                 " && git -c user.name=test -c user.email=test@localhost " + words);
  }
  bool commit() const { return git("add -A") && git("commit -q -m state"); }

  void append(const std::string& file, const std::string& text) const {
    std::ofstream(path(file), std::ios::app) << text;
  }

  CliResult run(const std::string& words, const std::string& program = "zeroproof") const {
    ::setenv("ZP_TREE", path("").c_str(), 1);
    CliResult result = run_cli(words, program);
    ::unsetenv("ZP_TREE");
    return result;
  }

 private:
  Checkout() {
    made_ = shell("cd " + quoted(source_folder()) +
                  " && git ls-files -z -- common reference cuda verification CMakeLists.txt "
                  "README.md | xargs -0 cp --parents -t " +
                  quoted(path(""))) &&
            git("init -q") && commit() && git("tag first");
  }

  const TemporaryFolder folder_;
  bool made_ = false;
};

/// Evidence that is refused with this sentence.
void not_verified(const CliResult& result, const std::string& says, int code = 4) {
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == code);
  CHECK(result.out.find("not verified: ") != std::string::npos);
  CHECK(result.out.find(says) != std::string::npos);
  CHECK(result.out.find("\nNOT VERIFIED: ") != std::string::npos);
}

void verified(const CliResult& result, const std::string& says) {
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find(says) != std::string::npos);
}

json parsed(const std::string& file) { return json::parse(read_file(file)); }

}  // namespace

TEST_CASE("evidence: of a clean checkout is verified until a source changes") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  const TemporaryFolder folder;
  const std::string file = folder.file("evidence.json"), word = quoted(file);
  const std::string cases = three_ranks + " " + operation;
  REQUIRE(checkout->run("verify " + cases + " --evidence " + word).exit_code == 0);
  verified(checkout->run("evidence " + word), "\nverified: 2 of 2 cases verified\n");
  verified(checkout->run("evidence " + word + " " + operation), "\nverified: 1 of 1 cases");

  const json content = parsed(file).at("evidence");
  CHECK(content.at("finished") == true);
  CHECK(content.at("source").at("changed").empty());
  CHECK(content.at("denominator").at(0) == json{{"id", three_ranks}, {"ranks", 3}});
  CHECK(content.at("environment").contains("compiler"));
  const json& ranks = content.at("cases").at(0).at("replay");
  REQUIRE(ranks.size() == 3);
  for (const json& rank : ranks) {
    CHECK(rank.at("class") == "D");
    CHECK(rank.at("compared") > 10000);
    CHECK(rank.at("digests").at(0) == rank.at("digests").at(1));
  }
  CHECK(ranks.at(0).at("digests") != ranks.at(1).at("digests"));  // of other elements
  CHECK(content.at("cases").at(0).at("sensitivity").is_null());

  // Other cases and other settings than those of the run.
  not_verified(checkout->run("evidence " + word + " op/clip_value/host/x86-64/fill:ties"),
               "its run did not declare it");
  not_verified(checkout->run("evidence " + word + " " + three_ranks + " --steps 2"),
               "it was made with the default settings, not with '--steps 2'");
  CHECK(checkout->run("evidence " + word + " no_such_case").exit_code == 4);

  // A document does not change results; a source file may.
  checkout->append("README.md", "more\n");
  REQUIRE(checkout->commit());
  verified(checkout->run("evidence " + word), "\nverified: 2 of 2 cases verified\n");
  checkout->append("common/base/dtype.hpp", "// more\n");
  not_verified(checkout->run("evidence " + word), "it is stale: it was made from the sources ");
  REQUIRE(checkout->commit());
  not_verified(checkout->run("evidence " + word), "it is stale: it was made from the sources ");
}

TEST_CASE("evidence: every rank of every suite has a digest, except in controls") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  const TemporaryFolder folder;
  const std::string file = folder.file("evidence.json"), word = quoted(file);
  std::string cases =
      "lbfgs/rosenbrock/none/threads:2/contract comm/all_gather/threads:3/unequal/scattered "
      "resume/adamw/3:2-to-2:1/bf16/contract-to-contract/after:3 " +
      three_ranks;
  std::size_t ranks = 2 + 3 + (3 + 2) + 3;
#if defined(ZP_HAVE_MPI)
  cases += " byte_gpt_tiny/adamw/host/stage2/mpi:3/fp16/lockstep/bucket:4096/omp:1";
  ranks += 3;
#endif
  REQUIRE(checkout->run("verify " + cases + " --evidence " + word).exit_code == 0);
  verified(checkout->run("evidence " + word), "\nreplay       " + std::to_string(ranks) + " of " +
                                                  std::to_string(ranks) + " ranks deterministic\n");
#if defined(ZP_HAVE_MPI)
  // Processes have the results of threads.
  const json content = parsed(file).at("evidence").at("cases");
  json found;
  for (const json& one : content) {
    if (!one.at("id").get<std::string>().starts_with("byte_gpt_tiny")) continue;
    if (!found.is_null()) CHECK(one.at("replay") == found);
    found = one.at("replay");
  }
  CHECK(found.size() == 3);
#endif
  REQUIRE(checkout->run("verify controls/swapped-sums --evidence " + word).exit_code == 0);
  not_verified(checkout->run("evidence " + word),
               "rank 0 is not verified: a run has no results of it");
}

TEST_CASE("evidence: of a dirty checkout, or another one than the program's, is not verified") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  const TemporaryFolder folder;
  const std::string word = quoted(folder.file("evidence.json"));
  std::string said;
  const auto made = [&] {
    const CliResult run = checkout->run("verify " + operation + " --evidence " + word);
    CHECK(run.exit_code == 0);
    said = run.err;
    return checkout->run("evidence " + word);
  };
  checkout->append("README.md", "more\n");
  not_verified(made(), "the tree is dirty: 1 file changed since commit ");
  CHECK(said.starts_with("note: no case of this evidence will be verified: the tree is dirty: 1 "));
  REQUIRE(checkout->commit());
  verified(made(), "\nverified: 1 of 1 cases verified\n");
  CHECK(said.empty());
  checkout->append("cuda/new.cpp", "// not tracked\n");
  not_verified(made(), "such as '?? cuda/new.cpp'");
  REQUIRE(checkout->commit());
  not_verified(made(), "the program was built from other sources than those in ");
  REQUIRE(checkout->git("rm -q -r --cached ."));
  REQUIRE(checkout->git("commit -q -m nothing"));  // its files are in a repository, and not of it
  not_verified(made(), "the commit is unknown");
  fs::rename(checkout->path(".git"), checkout->path("git"));
  not_verified(made(), "the commit is unknown");
  fs::rename(checkout->path("git"), checkout->path(".git"));
}

TEST_CASE("evidence: an interrupted run leaves a declaration without evidence") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  const TemporaryFolder folder;
  const std::string file = folder.file("evidence.json"), word = quoted(file);
  REQUIRE(checkout->run("verify " + operation + " --evidence " + word).exit_code == 0);
  verified(checkout->run("evidence " + word), "\nverified: 1 of 1");
  // Killed as soon as its declaration has replaced the earlier evidence.
  const std::string killed =
      "--version >/dev/null; '" + build_folder() + "/zeroproof' verify byte_gpt --evidence " +
      word + " & pid=$!; i=0; while grep -q clip " + word +
      " && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done; kill -9 $pid; wait $pid";
  CHECK(checkout->run(killed).exit_code == 137);
  not_verified(checkout->run("evidence " + word), "its run did not finish");
  not_verified(checkout->run("evidence " + word), "it is declared, and its evidence is missing");
  CHECK(parsed(file).at("evidence").at("cases").empty());
}

TEST_CASE("evidence: records the planted faults that each case catches") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  if (!fs::exists(build_folder() + "/zeroproof-faults"))
    return skip_case("zeroproof-faults is not built");
  const TemporaryFolder folder;
  const std::string file = folder.file("evidence.json"), word = quoted(file);
  const std::string lion =
      "byte_gpt_tiny/lion/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
  const std::string both = lion + " " + operation + " --evidence " + word;
  const std::string faults = "zeroproof-faults";
  REQUIRE(checkout->run("verify " + both, faults).exit_code == 0);
  verified(checkout->run("evidence " + word, faults), "\nverified: 2 of 2 cases verified\n");
  const json content = parsed(file).at("evidence");
  const json& measured = content.at("cases").at(0).at("sensitivity");
  CHECK(measured.at("faults") >= 3);
  CHECK(measured.at("caught") == measured.at("faults"));
  CHECK(content.at("cases").at(1).at("sensitivity").is_null());  // no fault is planned for it

  REQUIRE(checkout->run("verify " + both + " --fault lion-betas-swapped", faults).exit_code == 1);
  not_verified(checkout->run("evidence " + word, faults), "the verdict of the reference is fail",
               1);
  CHECK(parsed(file).at("evidence").at("cases").at(0).at("sensitivity").is_null());
}

TEST_CASE("evidence: a plug-in whose results differ from run to run is nondeterministic") {
  const Checkout* const checkout = Checkout::fresh();
  if (checkout == nullptr) return;
  const TemporaryFolder folder;
  const std::string file = folder.file("evidence.json"), word = quoted(file);
  const std::string plugin = " --plugin " + quoted(build_folder() + "/plugins/unsteady.so");
  REQUIRE(checkout->run("verify op/clip/plugin/*/fill:ties" + plugin + " --evidence " + word)
              .exit_code == 1);
  not_verified(checkout->run("evidence " + word), "this program has no such case without ");
  const CliResult named =
      checkout->run("evidence " + word + " op/clip/plugin/*/fill:ties" + plugin);
  not_verified(named, "rank 0 is nondeterministic: its runs have the digests ", 1);
  CHECK(parsed(file).at("evidence").at("cases").at(0).at("replay").at(0).at("class") == "N");
}

TEST_CASE("evidence: files that cannot be written or are none are refused") {
  const TemporaryFolder folder;
  expect_refusal("verify " + operation + " --evidence /dev/null", "is no regular file");
  expect_refusal("verify " + operation + " --evidence " + quoted(folder.file("")), "directory");
  expect_refusal("verify " + operation + " --evidence " + quoted(folder.file("a/b/e.json")) +
                     " --config " + quoted(folder.file("none.toml")),
                 "none.toml");
  CHECK(folder.empty());
  expect_refusal("evidence " + quoted(folder.file("none")), "cannot be opened");
  expect_refusal("evidence " + quoted(folder.write("text", "no evidence")), "is no evidence");
  expect_refusal("evidence " + quoted(folder.file("text")) + " op/clip --jobs 2", "is no evidence");
  const std::string file = quoted(folder.file("e.json"));
  REQUIRE(run_cli("verify " + operation + " --evidence " + file).exit_code == 0);
  expect_refusal("evidence " + file + " op/clip --jobs 2", "--jobs was given to evidence");
  const std::string config = folder.write("c.toml", "[run]\nsteps = 4\n");
  expect_refusal(
      "verify " + three_ranks + " --config " + quoted(config) + " --evidence " + quoted(config),
      "is both input and output");
}

}  // namespace evidence_cli_test
