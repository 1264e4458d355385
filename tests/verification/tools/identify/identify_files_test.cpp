// zeroproof identify, and the files it reads.

#include <doctest.h>

#include "common/io/safetensors/safetensors.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/identify/made_step.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

struct File {
  SafeMetadata metadata = {{"rule", "adamw"},       {"lr", "0.001"},  {"beta1", "0.9"},
                           {"beta2", "0.999"},      {"eps", "1e-08"}, {"t", "3"},
                           {"weight_decay", "0.01"}};
  std::map<std::string, std::vector<float>> tensors;
};

File file_of(const RecordedStep& step) {
  File file;
  for (const StepTensor& t : step.tensors) {
    const auto put = [&](const std::string& buffer, const std::vector<float>& values) {
      file.tensors[buffer + (t.name.empty() ? "" : "." + t.name)] = values;
    };
    put("before.grad", t.grad);
    put("before.master", t.before.master);
    put("before.exp_avg", t.before.exp_avg);
    put("before.exp_avg_sq", t.before.exp_avg_sq);
    put("after.master", t.after.master);
    put("after.exp_avg", t.after.exp_avg);
    put("after.exp_avg_sq", t.after.exp_avg_sq);
  }
  return file;
}

RecordedStep taken(const std::string& dialect) {
  DialectHyper h;
  h.t = 3;
  h.weight_decay = 0.01;
  RecordedStep step = drawn_step(h, {61, 129}, 9);
  take(step, *find_dialect(dialect));
  return step;
}

void write(const std::string& path, const File& file) {
  std::vector<SafeTensorSpec> specs;
  for (const auto& [name, values] : file.tensors) {
    specs.push_back({name, SafeDType::f32, {static_cast<std::int64_t>(values.size())}});
  }
  SafetensorsWriter writer(path, specs, file.metadata);
  for (const auto& [name, values] : file.tensors)
    writer.write(name, std::as_bytes(Span<const float>(values)));
  writer.finish();
}

}  // namespace

TEST_CASE("identify names a step, and ends with 0, 1, 2 or 4") {
  const TemporaryFolder folder;
  const std::string path = folder.file("step.safetensors");
  File file = file_of(taken("deepspeed-cpu-adam-avx2"));
  write(path, file);
  const CliResult named = run_cli("identify " + quoted(path));
  CHECK(named.exit_code == 0);
  CHECK(named.out.find("adamw, t = 3, 190 elements in 2 tensors") == 0);
  CHECK(named.out.find("last n mod 8: fma(b, v, c*(g*g))") != std::string::npos);
  const std::string alone = "\n(the update alone; the gradient is taken as given)\n";
  CHECK(named.out.ends_with("\nthis is deepspeed-cpu-adam-avx2" + alone));

  const std::string other = folder.file("other.safetensors");
  write(other, file_of(taken("contract")));
  const CliResult both = run_cli("identify " + quoted(path) + " " + quoted(other));
  CHECK(both.exit_code == 1);
  const std::string all_alone = "\n(the updates alone; the gradients are taken as given)\n";
  CHECK(both.out.ends_with("\n2 steps, 380 elements: no dialect has the bits of all" + all_alone));
  CHECK(run_cli("identify " + quoted(path) + " " + quoted(path)).exit_code == 0);

  File skipped = file;
  for (const char* buffer : {"master", "exp_avg", "exp_avg_sq"}) {
    for (const char* tensor : {".0", ".1"}) {
      skipped.tensors[std::string("after.") + buffer + tensor] =
          skipped.tensors[std::string("before.") + buffer + tensor];
    }
  }
  write(other, skipped);
  const CliResult nothing = run_cli("identify " + quoted(other));
  CHECK(nothing.exit_code == 4);
  CHECK(nothing.out.find("\nnothing changed: a skipped step, or rates of 0\n") !=
        std::string::npos);
  const CliResult with_skipped = run_cli("identify " + quoted(path) + " " + quoted(other));
  CHECK(with_skipped.exit_code == 0);
  CHECK(with_skipped.out.find(other + ": nothing changed\n") != std::string::npos);
  CHECK(with_skipped.out.ends_with("\n2 steps, 380 elements: deepspeed-cpu-adam-avx2" + all_alone));
  CHECK(run_cli("identify " + quoted(other) + " " + quoted(other)).exit_code == 4);

  File late = file_of(taken("torch-cpu-fused"));
  late.metadata["t"] = "4";  // one step later than it was made with
  write(other, late);
  const CliResult wrong = run_cli("identify " + quoted(other));
  CHECK(wrong.exit_code == 1);
  CAPTURE(wrong.out);
  CHECK(wrong.out.find("\nwrong: as if t were one less\n") != std::string::npos);
  const CliResult with_wrong = run_cli("identify " + quoted(path) + " " + quoted(other));
  CHECK(with_wrong.exit_code == 1);
  CHECK(with_wrong.out.find(other + ": wrong: as if t were one less\n") != std::string::npos);
  CHECK(with_wrong.out.ends_with("\n2 steps, 380 elements: 1 wrong" + all_alone));

  for (float& x : file.tensors["after.master.0"]) x = x * 1.001F;
  write(path, file);
  const CliResult fault = run_cli("identify " + quoted(path));
  CHECK(fault.exit_code == 1);
  CHECK(fault.out.find("\nwrong: the error is up to ") != std::string::npos);
  CHECK(fault.out.find("master: no known formula has fewer than 1 % of the elements differ") !=
        std::string::npos);
  CHECK(fault.out.find("nearest: deepspeed-cpu-adam-avx2") != std::string::npos);
  CHECK(run_cli("identify").exit_code == 2);
}

TEST_CASE("a file that is no step is refused in a sentence") {
  const TemporaryFolder folder;
  const std::string path = folder.file("step.safetensors");
  const File good = file_of(taken("contract"));
  const auto refused = [&](const char* part, const std::function<void(File&)>& harm) {
    File file = good;
    harm(file);
    write(path, file);
    expect_refusal("identify " + quoted(path), part);
  };
  refused("there is no tensor 'after.exp_avg.1'",
          [](File& f) { f.tensors.erase("after.exp_avg.1"); });
  refused("there is no tensor before.grad",
          [](File& f) { f.tensors.erase("before.grad.0"), f.tensors.erase("before.grad.1"); });
  refused("has 60 elements, its gradient 61",
          [](File& f) { f.tensors["after.master.0"].pop_back(); });
  refused("'before.max_exp_avg_sq.0' belongs to no step",
          [](File& f) { f.tensors["before.max_exp_avg_sq.0"] = {1}; });
  refused("the metadata has no 'eps'", [](File& f) { f.metadata.erase("eps"); });
  refused("did you mean weight_decay?", [](File& f) { f.metadata["weight-decay"] = "1"; });
  refused("t is '1.5'", [](File& f) { f.metadata["t"] = "1.5"; });
  refused("leave the file out if the step was skipped", [](File& f) { f.metadata["t"] = "0"; });
  refused("it has the gradients of a training run",
          [](File& f) { f.metadata["micro_batches"] = "2"; });
  refused("lr is 'nan'", [](File& f) { f.metadata["lr"] = "nan"; });
  refused("rule is 'lion'", [](File& f) { f.metadata["rule"] = "lion"; });
  refused("amsgrad is no setting of lamb",
          [](File& f) { f.metadata["rule"] = "lamb", f.metadata["amsgrad"] = "0"; });
  refused("momentum is no setting of adamw", [](File& f) { f.metadata["momentum"] = "0"; });
  refused("amsgrad is 'yes'", [](File& f) { f.metadata["amsgrad"] = "yes"; });
  refused("no tensor has elements", [](File& f) {
    for (auto& [name, values] : f.tensors) values.clear();
  });
  expect_refusal("identify " + quoted(folder.file("none")), "cannot be opened");
}
