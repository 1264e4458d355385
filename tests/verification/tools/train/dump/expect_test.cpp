// verify --expect: numbers of another program, compared with the undistributed optimizer of the
// same gradients.

#include <doctest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters = {
    {"embed.weight", {5, 3}}, {"out.bias", {7}}, {"none", {0, 2}}};

std::vector<float> numbers(std::int64_t numel, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i)
    values.push_back(static_cast<float>(std::sin(double(i * 37 + seed * 11))));
  return values;
}

/// Gradients of steps first to last, numbered from 1.
void write_recording(const std::string& path, int first, int last) {
  std::vector<NamedTensor> tensors;
  for (int step = first; step <= last; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      for (const auto& [name, shape] : parameters) {
        std::int64_t numel = 1;
        for (const std::int64_t size : shape) numel *= size;
        tensors.push_back(tensor("grad." + std::to_string(step - first + 1) + "." +
                                     std::to_string(micro_batch) + "." + name,
                                 SafeDType::f32, shape, numbers(numel, step * 10 + micro_batch)));
      }
    }
  }
  write_tensors(path, tensors);
}

/// A recording, and the numbers of its run as another program may write them.
class Setup {
 public:
  Setup() {
    write_recording(folder.file("g"), 1, 4);
    const CliResult run =
        run_cli("verify " + flags() + " --impl host --world self --stage 0 --dump " +
                quoted(folder.file("dump")) + " --dump-steps 1,2,3,4");
    CAPTURE(run.out);
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    dump = read_tensors(folder.file("dump"));
  }

  std::string flags(const std::string& gradients = "g") const {
    return "--gradients " + quoted(folder.file(gradients)) + " --recipe adamw --dtype bf16";
  }

  CliResult expect(const std::vector<NamedTensor>& theirs, const std::string& more = "",
                   const std::string& gradients = "g") const {
    write_tensors(folder.file("theirs"), theirs);
    return run_cli("verify " + flags(gradients) + " --expect " + quoted(folder.file("theirs")) +
                   " " + more);
  }

  /// The dump with one bit of an element flipped.
  void flip(std::vector<NamedTensor>& tensors, const std::string& name, std::size_t byte) const {
    for (NamedTensor& each : tensors) {
      if (each.spec.name == name) each.bytes.at(byte) ^= std::byte{1};
    }
  }

  TemporaryFolder folder;
  std::vector<NamedTensor> dump;
};

std::vector<NamedTensor> only(std::vector<NamedTensor> tensors,
                              const std::function<bool(const std::string&)>& keep) {
  std::erase_if(tensors, [&](const NamedTensor& each) { return !keep(each.spec.name); });
  return tensors;
}

}  // namespace

TEST_CASE("the same numbers are equal, all of them or some") {
  const Setup setup;
  const CliResult all = setup.expect(setup.dump);
  CAPTURE(all.out);
  CAPTURE(all.err);
  CHECK(all.exit_code == 0);
  CHECK(all.out.find(
            "against  the undistributed optimizer: recorded adamw bf16\nsteps    1, 2, 3, 4\n"
            "start    the run's own\ndialect  contract\n") != std::string::npos);
  CHECK(all.out.find("\nall bits are equal\n") != std::string::npos);
  CHECK(widest(all.out.substr(all.out.find("against"))) <= 100);
  const CliResult some = setup.expect(
      only(setup.dump, [](const std::string& name) { return name.starts_with("master.3."); }));
  CHECK(some.exit_code == 0);
  CHECK(some.out.find("steps    3\n") != std::string::npos);
  CHECK(some.out.find("exp_avg") == std::string::npos);
}

TEST_CASE(
    "the first difference is named in the order of the data: step, moments, master, parameters") {
  const Setup setup;
  std::vector<NamedTensor> theirs = setup.dump;
  setup.flip(theirs, "param.2.embed.weight", 0);
  setup.flip(theirs, "master.2.embed.weight", 0);
  setup.flip(theirs, "exp_avg_sq.2.out.bias", 4 * 6);
  setup.flip(theirs, "exp_avg.3.embed.weight", 0);
  const CliResult found =
      setup.expect(theirs, "--report text,json:" + quoted(setup.folder.file("j")));
  CAPTURE(found.out);
  CHECK(found.exit_code == 1);
  CHECK(found.out.find("first at  step 2  buffer exp_avg_sq  out.bias[6]\nvalues    got ") !=
        std::string::npos);
  CHECK(found.out.find("extent    1 of 7 elements") != std::string::npos);
  CHECK(found.out.find("differs from step 3") != std::string::npos);  // exp_avg
  CHECK(found.out.find("\nnot equal\n") != std::string::npos);
  const auto json = nlohmann::json::parse(read_file(setup.folder.file("j")));
  CHECK(json["schema"] == "zeroproof-expect/1");
  CHECK(json["equal"] == false);
  CHECK(json["total"]["differing"] == 4);
  CHECK(json["dialect"] == "contract");
  for (const auto& buffer : json["buffers"]) {
    const std::string name = buffer["buffer"];
    CHECK(buffer["equal"] == (name != "param" && name != "master" && !name.starts_with("exp_avg")));
  }
}

TEST_CASE(
    "expect: gradient sums and clipped gradients are compared, with the factor of a difference") {
  const Setup setup;
  const std::string file = setup.folder.file("gradients");
  const std::string verify = "verify " + setup.flags() + " --impl host --world self --stage 0";
  REQUIRE(run_cli(verify + " --dump " + quoted(file) + " --dump-steps 1,2 --dump-gradients")
              .exit_code == 0);
  const std::vector<NamedTensor> all = read_tensors(file);
  CHECK(all.size() > setup.dump.size() / 4 * 2);
  CHECK(setup.expect(all).exit_code == 0);
  const auto scaled = [&](const std::string& buffer, float factor) {
    std::vector<NamedTensor> theirs;
    for (NamedTensor each : all) {
      if (!each.spec.name.starts_with(buffer + ".")) continue;
      auto* values = reinterpret_cast<float*>(each.bytes.data());
      for (std::size_t i = 0; i < each.bytes.size() / sizeof(float); ++i) values[i] *= factor;
      theirs.push_back(std::move(each));
    }
    REQUIRE(theirs.size() == 6);
    return theirs;
  };
  for (const std::string buffer : {"grad_sum", "grad"}) {
    CAPTURE(buffer);
    CHECK(setup.expect(scaled(buffer, 1)).exit_code == 0);
    const CliResult twice = setup.expect(scaled(buffer, 2));
    CHECK(twice.exit_code == 1);
    CHECK(twice.out.find("first at  step 1  buffer " + buffer + "  embed.weight[0, 0]\n") !=
          std::string::npos);
    CHECK(twice.out.find("\nhint      they hold the expected values multiplied by 2, the number of "
                         "micro-batches") != std::string::npos);
    CHECK(setup.expect(scaled(buffer, 0x1p-16F)).out.find("hint      they hold 2^-16 times") !=
          std::string::npos);
    std::vector<NamedTensor> start = all;
    start.push_back(all.front());
    start.back().spec.name = buffer + ".0.out.bias";
    expect_refusal(setup.expect(start), "is not part of this run");
  }
  expect_refusal(setup.expect(all, "--sum native"), "--sum native was given with --expect");
  expect_refusal(setup.expect(all, "--dump-gradients"), "--dump-gradients was given with --expect");
  expect_refusal(verify + " --dump-gradients", "--dump-gradients was given without --dump");
}

TEST_CASE("missing tensors of a buffer, and those of another form, are different") {
  const Setup setup;
  const CliResult lacking = setup.expect(
      only(setup.dump, [](const std::string& name) { return name != "master.2.out.bias"; }));
  CHECK(lacking.exit_code == 1);
  CHECK(lacking.out.find("first at  step 2  buffer master  out.bias: is missing") !=
        std::string::npos);
  const std::vector<NamedTensor> wide = {
      tensor("master.1.embed.weight", SafeDType::f64, {5, 3}, std::vector<double>(15, 0)),
      tensor("master.1.none", SafeDType::f32, {0, 2}, std::vector<float>{}),
      tensor("master.1.out.bias", SafeDType::f32, {7, 1}, std::vector<float>(7, 0))};
  const CliResult other = setup.expect(wide);
  CAPTURE(other.out);
  CAPTURE(other.err);
  CHECK(other.exit_code == 1);
  CHECK(other.out.find("is F64, and should be F32") != std::string::npos);
}

TEST_CASE("their names are translated, with or without a step in them") {
  const Setup setup;
  std::vector<NamedTensor> theirs;
  for (NamedTensor each : setup.dump) {
    std::string& name = each.spec.name;
    if (name.starts_with("exp_avg.3.")) {
      name = "state/3/" + name.substr(10) + "/m";
    } else if (name.starts_with("master.4.")) {
      name = "fp32." + name.substr(9);
    } else if (name == "grad_norm.2") {
      name = "norm2";
    } else {
      continue;
    }
    theirs.push_back(each);
  }
  theirs.push_back(floats("rng.state", {1}));
  const std::string map = setup.folder.write("names.toml",
                                             "exp_avg = \"state/{step}/{name}/m\"\n"
                                             "master = \"fp32.{name}\"\n"
                                             "grad_norm = \"norm{step}\"\n"
                                             "momentum_buffer = \"{step}.{name}.b\"\n"
                                             "ignore = [\"rng.*\"]\n");
  const CliResult found = setup.expect(theirs, "--phase-names " + quoted(map));
  CAPTURE(found.out);
  CAPTURE(found.err);
  CHECK(found.exit_code == 0);
  CHECK(found.out.find("steps    2, 3, 4\n") != std::string::npos);
  CHECK(found.out.find("ignored  1 tensors of theirs") != std::string::npos);
  for (NamedTensor& each : theirs) {
    if (each.spec.name == "fp32.out.bias") each.bytes[0] ^= std::byte{1};
  }
  CHECK(setup.expect(theirs, "--phase-names " + quoted(map)).exit_code == 1);

  const auto refused = [&](const std::string& text, const std::string& mention) {
    CAPTURE(text);
    expect_refusal(
        setup.expect(theirs, "--phase-names " + quoted(setup.folder.write("bad.toml", text))),
        mention);
  };
  refused("exp_agv = \"x.{name}\"\n", "did you mean exp_avg?");
  refused("\nexp_avg = 3\n", "bad.toml:2: the name of exp_avg is no text");
  refused("exp_avg = \"x\"\n", "lacks {name}");
  refused("grad_norm = \"x.{name}\"\n", "has {name}");
  refused("exp_avg = \"{layer}.{name}\"\n", "has {layer}");
  refused("exp_avg = \n", "bad.toml:1");
  refused("ignore = \"rng\"\n", "ignore is no list");
  refused("exp_avg = \"fp32.{name}\"\nmaster = \"fp32.{name}\"\nignore = [\"*\"]\n", "is both");
  expect_refusal(setup.expect(theirs, "--phase-names /none"), "/none");
}

TEST_CASE("a run can begin where theirs did: state, master and count of step 0") {
  const Setup setup;
  write_recording(setup.folder.file("later"), 3, 4);
  std::vector<NamedTensor> theirs;
  for (NamedTensor each : setup.dump) {
    for (const char* buffer : {"master.", "exp_avg.", "exp_avg_sq.", "applied_steps.", "param."}) {
      const std::string from = buffer;
      if (!each.spec.name.starts_with(from)) continue;
      const int step = each.spec.name[from.size()] - '0';
      if (step < 2) continue;
      NamedTensor moved = each;
      moved.spec.name = from + std::to_string(step - 2) + each.spec.name.substr(from.size() + 1);
      theirs.push_back(moved);
    }
  }
  const CliResult found = setup.expect(theirs, "", "later");
  CAPTURE(found.out);
  CAPTURE(found.err);
  CHECK(found.exit_code == 0);
  CHECK(found.out.find("start    theirs, step 0: exp_avg, exp_avg_sq, master, applied_steps\n") !=
        std::string::npos);
  CHECK(found.out.find("steps    0, 1, 2\n") != std::string::npos);  // param of step 0 too
  // Each part of the start is used.
  for (const char* part : {"exp_avg.0.embed.weight", "exp_avg_sq.0.out.bias",
                           "master.0.embed.weight", "applied_steps.0"}) {
    CAPTURE(part);
    std::vector<NamedTensor> other = theirs;
    setup.flip(other, part, std::string(part).starts_with("applied") ? 0 : 3);
    CHECK(setup.expect(other, "", "later").exit_code == 1);
  }
  expect_refusal(
      setup.expect(
          only(theirs, [](const std::string& name) { return name != "exp_avg.0.out.bias"; }), "",
          "later"),
      "exp_avg.0.out.bias is missing");
  std::vector<NamedTensor> counted = theirs;
  std::erase_if(counted,
                [](const NamedTensor& each) { return each.spec.name == "applied_steps.0"; });
  counted.push_back(tensor<std::int32_t>("applied_steps.0", SafeDType::i32, {}, {2}));
  expect_refusal(setup.expect(counted, "", "later"), "another type or shape");
}

namespace {
/// The numbers of steps after `cut` as those of a run that begins there, with the loss scaler of
/// that step.
std::vector<NamedTensor> cut_after(const std::vector<NamedTensor>& dump, int cut,
                                   std::int32_t growth_tracker, std::int32_t hysteresis_left) {
  std::vector<NamedTensor> theirs;
  for (NamedTensor each : dump) {
    for (const std::string from :
         {"master.", "exp_avg.", "exp_avg_sq.", "applied_steps.", "log2_loss_scale."}) {
      if (!each.spec.name.starts_with(from)) continue;
      const bool scale =
          from == "log2_loss_scale.";  // of its step's leaves: the start is that of the next step
      const int step = each.spec.name[from.size()] - '0';
      const std::string rest = each.spec.name.substr(from.size() + 1);
      if (step < cut || (scale && step == cut)) continue;
      each.spec.name = from + std::to_string(step - cut) + rest;
      theirs.push_back(each);
      if (scale && step == cut + 1) {
        each.spec.name = from + "0";
        theirs.push_back(each);
      }
      break;
    }
  }
  theirs.push_back(tensor<std::int32_t>("growth_tracker.0", SafeDType::i32, {}, {growth_tracker}));
  theirs.push_back(
      tensor<std::int32_t>("hysteresis_left.0", SafeDType::i32, {}, {hysteresis_left}));
  return theirs;
}

std::vector<NamedTensor> replaced(std::vector<NamedTensor> tensors, const std::string& name,
                                  std::int32_t value) {
  std::erase_if(tensors, [&](const NamedTensor& each) { return each.spec.name == name; });
  tensors.push_back(tensor<std::int32_t>(name, SafeDType::i32, {}, {value}));
  return tensors;
}
}  // namespace

TEST_CASE("a run can begin with their loss scaler: scale, growth tracker, hysteresis") {
  // From 2^20 every step overflows in fp16. With one overflow forgiven, that of step 2 backs off,
  // to 2^12; without, that of step 1 does, and steps 2 and 3 are the two good ones before a growth
  // to 2^13, which step 4 has.
  struct Row {
    int hysteresis, cut;
    std::int32_t tracker, left;
    const char* part;
    std::int32_t other;
  };
  for (const Row& row :
       {Row{2, 1, 0, 1, "hysteresis_left.0", 2}, Row{2, 1, 0, 1, "log2_loss_scale.0", 21},
        Row{1, 2, 1, 0, "growth_tracker.0", 0}}) {
    CAPTURE(std::string(row.part));
    const TemporaryFolder folder;
    const auto expect = [&](const std::vector<NamedTensor>& theirs) {
      write_tensors(folder.file("theirs"), theirs);
      return run_cli("verify --gradients " + quoted(folder.file("later")) +
                     " --recipe adamw --dtype fp16 --config " + quoted(folder.file("c.toml")) +
                     " --expect " + quoted(folder.file("theirs")));
    };
    write_recording(folder.file("all"), 1, 4);
    write_recording(folder.file("later"), row.cut + 1, 4);
    std::ofstream(folder.file("c.toml"))
        << "[loss_scaler]\ngrowth_interval = 2\nhysteresis = " << row.hysteresis;
    const CliResult run =
        run_cli("verify --gradients " + quoted(folder.file("all")) +
                " --recipe adamw --dtype fp16 --config " + quoted(folder.file("c.toml")) +
                " --impl host --world self --stage 0 --dump " + quoted(folder.file("dump")) +
                " --dump-steps 1,2,3,4");
    CAPTURE(run.out);
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    const std::vector<NamedTensor> theirs =
        cut_after(read_tensors(folder.file("dump")), row.cut, row.tracker, row.left);
    const CliResult same = expect(theirs);
    CAPTURE(same.out);
    CAPTURE(same.err);
    CHECK(same.exit_code == 0);
    CHECK(same.out.find("step 0: log2_loss_scale, growth_tracker, hysteresis_left, exp_avg") !=
          std::string::npos);
    const CliResult other = expect(replaced(theirs, row.part, row.other));
    CHECK(other.exit_code == 1);
    CHECK(other.out.find("buffer log2_loss_scale") != std::string::npos);
    expect_refusal(expect(replaced(theirs, "growth_tracker.0", -1)),
                   "growth_tracker.0 is -1, and it counts from 0");
    expect_refusal(expect(replaced(theirs, "hysteresis_left.0", -1)), "hysteresis_left.0 is -1");
    expect_refusal(expect(replaced(theirs, "log2_loss_scale.0", 25)),
                   "log2_loss_scale.0 is 25, and the run's scale");
    expect_refusal(expect(replaced(theirs, "growth_tracker.1", 0)), "is not part of this run");
  }
}

TEST_CASE("without a loss scaler the scale of step 0 is 1") {
  const Setup setup;
  expect_refusal(setup.expect(replaced(setup.dump, "log2_loss_scale.0", 3)),
                 "and the run has no loss scaler");
  const CliResult plain = setup.expect(replaced(setup.dump, "log2_loss_scale.0", 0));
  CAPTURE(plain.err);
  CHECK(plain.exit_code == 0);
}

TEST_CASE("numbers of another contract are refused, and those without a contract are not") {
  const Setup setup;
  std::string bytes = read_file(setup.folder.file("dump"));
  const std::string ours = R"("contract_version":"2")";
  const std::size_t at = bytes.find(ours);
  REQUIRE(at != std::string::npos);
  bytes[at + ours.size() - 2] = '9';
  const std::string flags = "verify " + setup.flags() + " --expect ";
  expect_refusal(flags + quoted(setup.folder.write("nine", bytes)), "is of contract '9'");
  bytes[at + 1] = 'k';  // kontract_version
  CHECK(run_cli(flags + quoted(setup.folder.write("silent", bytes))).exit_code == 0);
}

TEST_CASE("unknown tensors are refused, not left out") {
  const Setup setup;
  const auto with = [&](const NamedTensor& extra) {
    std::vector<NamedTensor> theirs =
        only(setup.dump, [](const std::string& name) { return name.starts_with("master.4."); });
    theirs.push_back(extra);
    return setup.expect(theirs);
  };
  expect_refusal(with(floats("master.4.embed.wieght", {1})),
                 "did you mean 'master.4.embed.weight'?");
  expect_refusal(with(floats("master.5.embed.weight", {1})), "whose steps are 1 to 4");
  expect_refusal(with(floats("momentum_buffer.4.out.bias", {1})), "is not part of this run");
  expect_refusal(with(floats("grad_norm.0", {1})), "is not part of this run");
  expect_refusal(setup.expect({}), "no tensor of a step of this run");
  expect_refusal(
      setup.expect(
          only(setup.dump, [](const std::string& name) { return name.starts_with("master.4."); }),
          "--impl host"),
      "--impl was given with --expect");
  for (const char* flags : {"--world self", "--stage 1", "--strict", "--dump x", "--jobs 1",
                            "--report junit:x", "--save-failing x", "--layout contract"}) {
    expect_refusal(setup.expect(setup.dump, flags), "--expect");
  }
  expect_refusal("verify " + setup.flags() + " --phase-names x", "without --expect");
  expect_refusal("verify --gradients " + quoted(setup.folder.file("g")) + " --expect " +
                     quoted(setup.folder.file("dump")),
                 "choose one with --recipe, --dtype or --sum");
  expect_refusal("verify " + setup.flags() + " --expect " + quoted(setup.folder.file("none")),
                 "none");
}
