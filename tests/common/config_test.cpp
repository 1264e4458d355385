#include "common/step/config.hpp"

#include <doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

using namespace zeroproof;

namespace {

// The structured bindings name every member, so a new one does not compile until it is compared (and, with
// every_field_changed below, until it has a line in defaults.toml).
auto members(const ModelConfig& m) {
  const auto& [layers, width, heads, hidden, context] = m;
  return std::tuple(layers, width, heads, hidden, context);
}
auto members(const AdamwHyper& o) {
  const auto& [lr, beta1, beta2, eps, weight_decay, bias_correction, max_norm] = o;
  return std::tuple(lr, beta1, beta2, eps, weight_decay, bias_correction, max_norm);
}
auto members(const LossScalerConfig& s) {
  const auto& [kind, initial, growth, backoff, min, max, interval, hysteresis, refill] = s;
  return std::tuple(kind, initial, growth, backoff, min, max, interval, hysteresis, refill);
}
auto members(const RunConfig& c) {
  const auto& [seed, steps, micro_batches, stages, worlds, dtypes, buckets, threads, state, text, timeout,
               model, optimizer, scaler] = c;
  return std::tuple_cat(
      std::tuple(seed, steps, micro_batches, stages, worlds, dtypes, buckets, threads, state, text, timeout),
      members(model), members(optimizer), members(scaler));
}

bool same(const RunConfig& a, const RunConfig& b) { return members(a) == members(b); }

RunConfig every_field_changed() {
  RunConfig c = main_config();
  ++c.seed;
  ++c.steps;
  ++c.micro_batches;
  c.comm_timeout_s += 0.5;
  c.stages.push_back(9);
  c.worlds.clear();
  c.dtypes.push_back(DType::u64);
  c.bucket_numels.push_back(5);
  c.omp_threads.push_back(3);
  c.text += "elsewhere";
  c.initial_state = c.initial_state == InitialState::zero ? InitialState::seeded : InitialState::zero;
  ModelConfig& m = c.model;
  for (int* value : {&m.layers, &m.width, &m.heads, &m.hidden, &m.context}) ++*value;
  AdamwHyper& o = c.optimizer;
  for (double* value : {&o.lr, &o.eps, &o.weight_decay}) *value += 1;
  for (float* value : {&o.beta1, &o.beta2}) *value += 1;
  o.max_norm = -3.0;
  o.bias_correction = !o.bias_correction;
  LossScalerConfig& s = c.scaler;
  s.kind = s.kind == LossScalerKind::none ? LossScalerKind::constant : LossScalerKind::none;
  s.refill = s.refill == HysteresisRefill::growth ? HysteresisRefill::good_step : HysteresisRefill::growth;
  for (int* value : {&s.log2_initial, &s.log2_growth, &s.log2_backoff, &s.log2_min, &s.log2_max,
                     &s.growth_interval, &s.hysteresis}) {
    ++*value;
  }
  return c;
}

const std::string source_dir = ZP_SOURCE_DIR;
const std::string defaults_file = source_dir + "/common/step/defaults.toml";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Message of the configuration error that `call` throws, after a look at its grammar; "" if it throws none.
template <class Call>
std::string complaint(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.code() == ErrorCode::config);
    CHECK(text.find(" (") < text.find("); "));
    CHECK(text.find("); ") + 3 < text.size());
    CHECK_FALSE(has(text, "\n"));  // one sentence, and one line of a log
    return text;
  }
  return "";
}

std::string complaint_about(const std::string& toml) {
  return complaint([&] {
    RunConfig config = main_config();
    apply_toml(config, toml, "some/file.toml");
  });
}

RunConfig applied(const std::string& toml) {
  RunConfig config = main_config();
  apply_toml(config, toml, "some/file.toml");
  return config;
}

/// A path of its own in the temporary folder, gone at the end.
struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() / "zeroproof_config_test_").string() +
                     std::to_string(std::filesystem::file_time_type::clock::now().time_since_epoch().count());
  ~TemporaryFile() { std::remove(path.c_str()); }
};

/// Calls body(key, value) for every value of a table with one key per line: "key | value | value".
template <class Body>
void for_each_value(const std::string& table, const Body& body) {
  std::istringstream lines(table);
  const auto trimmed = [](const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  };
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string key;
    std::getline(cells, key, '|');
    for (std::string value; std::getline(cells, value, '|');) body(trimmed(key), trimmed(value));
  }
}

/// The one line "key = value" behind a remark and its section, so that it stands in line 3.
std::string in_line_3(const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  return "# remark\n[" + key.substr(0, dot) + "]\n" + key.substr(dot + 1) + " = " + value + "\n";
}

void check_refused(const std::string& toml, int line, const std::string& part) {
  const std::string text = complaint_about(toml);
  CAPTURE(toml);
  CAPTURE(text);
  CHECK(text.find("some/file.toml:" + std::to_string(line) + ":") == 0);
  CHECK(has(text, part));
}

/// What validate says about a configuration whose other values leave room around the one that is set.
std::string judged(const std::string& toml) {
  RunConfig config = main_config();
  config.micro_batches = 16;
  config.model = {4, 136, 4, 544, 64};
  config.scaler = {LossScalerKind::dynamic, 16, 1, 1, 0, 24, 1000, 2, HysteresisRefill::growth};
  apply_toml(config, toml, "some/file.toml");
  return complaint([&] { validate(config); });
}

}  // namespace

TEST_CASE("config: defaults.toml brings every setting back to main_config()") {
  const bool all_differ = std::apply(
      [&](const auto&... a) {
        return std::apply([&](const auto&... b) { return (... && (a != b)); },
                          members(every_field_changed()));
      },
      members(main_config()));
  CHECK(all_differ);
  RunConfig config = every_field_changed();
  apply_toml_file(config, defaults_file);
  CHECK(same(config, main_config()));
  RunConfig from_text = every_field_changed();
  apply_toml(from_text, content_of(defaults_file), defaults_file);
  CHECK(same(from_text, main_config()));
}

// Key by key, so that a failure names the line that is out of date.
TEST_CASE("config: every line of defaults.toml is the value of main_config()") {
  std::istringstream lines(content_of(defaults_file));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '[') section = line;
    if (!has(line, "=") || line[0] == '#') continue;
    CAPTURE(line);
    CHECK(has(line, "#"));  // a word of explanation
    CHECK(same(applied(section + "\n" + line), main_config()));
  }
}

TEST_CASE("config: defaults.toml has every key that the parser knows, once") {
  const std::string parser = content_of(source_dir + "/common/step/config_toml.cpp");
  const std::regex row("\"((run|model|optimizer|loss_scaler)\\.[a-z0-9_]+)\"");
  std::set<std::string> known;
  const std::sregex_iterator begin(parser.begin(), parser.end(), row);
  for (auto match = begin; match != std::sregex_iterator(); ++match) known.insert((*match)[1]);
  CHECK(known.size() == std::tuple_size_v<decltype(members(main_config()))>);  // one key per field
  std::istringstream lines(content_of(defaults_file));
  std::set<std::string> shown;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '[') section = line.substr(1, line.find(']') - 1);
    const std::regex assignment("^([a-z0-9_]+) =.*");
    std::smatch match;
    if (std::regex_match(line, match, assignment)) CHECK(shown.insert(section + "." + match[1].str()).second);
  }
  CHECK(shown == known);
}

TEST_CASE("config: both ready-made configurations are valid") {
  validate(main_config());
  validate(tiny_config());
}

TEST_CASE("config: TOML that is applied") {
  CHECK(same(applied(""), main_config()));
  CHECK(same(applied("# nothing but a remark\n\n"), main_config()));
  CHECK(same(applied("\r\n"), main_config()));
  CHECK(applied("[run]\r\nsteps = 7 # with CRLF\r\nseed=9\r\n").steps == 7);
  CHECK(applied("\xEF\xBB\xBF[run]\nsteps = 8").steps == 8);  // byte order mark, no newline at the end
  CHECK(applied("run.steps = 9").steps == 9);
  CHECK(applied("run = { steps = 1_0, seed = 0x10 }").seed == 16);
  CHECK(applied("[run]\nseed = 9223372036854775807").seed == 9223372036854775807U);
  CHECK(applied("[optimizer]\nlr = 1").optimizer.lr == 1.0);
  CHECK(applied("[optimizer]\nmax_norm = 0").optimizer.max_norm == 0.0);
  CHECK(applied("[optimizer]\nbeta1 = 0").optimizer.beta1 == 0.0F);
  CHECK(applied("[optimizer]\nbeta2 = 0.1").optimizer.beta2 == 0.1F);  // rounded to fp32 once, here
  CHECK(applied("[run]\ncomm_timeout_s = 5").comm_timeout_s == 5.0);
  CHECK(applied("[loss_scaler]\ninitial_loss_scale = 65536").scaler.log2_initial == 16);
  CHECK(applied("[loss_scaler]\ninitial_loss_scale = 65536.0").scaler.log2_initial == 16);
  CHECK(applied("[loss_scaler]\nmin_loss_scale = 0.125").scaler.log2_min == -3);
  CHECK(applied("[loss_scaler]\ngrowth_factor = 4").scaler.log2_growth == 2);
  CHECK(applied("[loss_scaler]\nbackoff_factor = 0.25").scaler.log2_backoff == 2);
  CHECK(applied("[loss_scaler]\nkind = \"none\"").scaler.kind == LossScalerKind::none);
  CHECK(applied("[run]\ndtypes = [\"fp32\"]").dtypes == std::vector<DType>{DType::fp32});
  CHECK(applied("[run]\nstages = [ # over lines\n  2,\n  0,\n]").stages == std::vector<int>{2, 0});
  CHECK(applied("[run]\ntext = 'a b/c#d.txt'").text == "a b/c#d.txt");
}

TEST_CASE("config: malformed TOML and repeated keys are refused with file and line") {
  const std::pair<int, std::vector<std::string>> by_line[] = {
      {1, {"[run\nsteps = 1", "= 3", "steps", "[]", "[run]]"}},
      {2,
       {"[run]\nsteps =", "[run]\nsteps 3", "[run]\ntext = \"open", "[run]\ntext = \"\\q\"",
        "[run]\nsteps = 01"}},
      {2, {"[run]\nstages = [1, 2", "[run]\nsteps = none", "[run]\nsteps = 99999999999999999999"}},
      {2, {"[run]\nseed = 9223372036854775808", "[optimizer]\nlr = 1e", "[run]\ntext = \"\xFF\""}},
      {3, {"[run]\n\nsteps = 1 2", "[run]\nsteps = 1\nsteps = 2", "[run]\r\nseed = 1\r\nseed = 1"}},
      {4, {"[run]\nsteps = 1\n[model]\n[run]"}}};
  for (const auto& [line, texts] : by_line) {
    for (const std::string& toml : texts) check_refused(toml, line, "TOML");
  }
}

TEST_CASE("config: unknown keys are refused with file and line, and the nearest key is offered") {
  for_each_value(R"(
    run.steps | run.step | run.Steps | run.stps | runs.steps | run.steps_
    run.micro_batches | run.micro_batch | run.microbatches
    optimizer.lr | optimiser.lr | optimizer.l
    model.heads | model.head | model.haeds
    loss_scaler.hysteresis | loss_scaler.histeresis | loss_scale.hysteresis)",
                 [](const std::string& meant, const std::string& written) {
                   check_refused(in_line_3(written, "1"), 3, "did you mean " + meant + "?");
                 });
  check_refused("seed = 3", 1, "did you mean run.seed?");
  check_refused("run = 1", 1, "unknown key run");
  check_refused("[[run]]\nsteps = 1", 1, "run");
  check_refused("[run.steps]\nx = 1", 1, "run.steps");
  check_refused("[run.sub]\nsteps = 1", 1, "unknown key run.sub");
  check_refused("[model]\n\n\"\" = 1", 3, "unknown key model.");
  check_refused("\"run.steps\" = 7", 1, "unknown key");     // a quoted dot does not separate
  check_refused("[run]\n[optimiser]\n", 2, "unknown key");  // a misspelt section whose lines are all remarks
  check_refused("[run]\n\"a\\nb\" = 7", 2, "unknown key");  // the line feed must not reach the message
}

// 2^53 + 1 and 2^63 - 1 are no powers of two, though the fp64 numbers nearest to them are.
TEST_CASE("config: values of a wrong type are refused with file, line and key") {
  const auto check = [](const std::string& key, const std::string& value) {
    check_refused(in_line_3(key, value), 3, key);
  };
  for_each_value(R"(
    run.steps | 3.0 | inf
    run.seed | -1
    model.layers | 3000000000 | -3000000000 | 1.0
    run.omp_threads | [0, 3000000000]
    run.stages | 1 | [] | [0, "1"] | [0, 1.0] | [[0]]
    run.worlds | "self" | [] | [1]
    run.bucket_numels | [1024.0] | []
    run.dtypes | ["bf16", "fp8"] | ["BF16"] | ["fp64"] | [16] | []
    run.text | 3
    run.initial_state | "one" | "Zero"
    loss_scaler.kind | "Dynamic" | 1
    loss_scaler.hysteresis_refill | "never" | 0
    optimizer.bias_correction | 1 | "true"
    loss_scaler.max_loss_scale | 9007199254740993 | 9223372036854775807
    loss_scaler.growth_factor | 1 | 0.5
    loss_scaler.backoff_factor | 1 | 2.0)",
                 check);
  for (const char* key :
       {"initial_loss_scale", "growth_factor", "backoff_factor", "min_loss_scale", "max_loss_scale"}) {
    for_each_value(std::string("loss_scaler.") + key + " | 3 | 0 | -2 | nan | inf | 1.5 | 0.3 | -0.5", check);
  }
  for (const char* key :
       {"run.steps", "run.text", "run.worlds", "run.initial_state", "run.comm_timeout_s", "model.width",
        "optimizer.lr", "optimizer.max_norm", "optimizer.bias_correction", "loss_scaler.kind",
        "loss_scaler.growth_interval", "loss_scaler.initial_loss_scale"}) {
    for_each_value(
        key + std::string(" | 1979-05-27 | 07:32:00 | 1979-05-27T07:32:00Z | { x = 1 } | {} | [1]"), check);
  }
  for (const char* key :
       {"run.steps", "run.comm_timeout_s", "optimizer.lr", "optimizer.beta1", "model.hidden"}) {
    for_each_value(key + std::string(" | \"1\" | true"), check);
  }
  check("run.steps", "\"\"\"\n1\n2\"\"\"");  // the message stays in one line
  // The line of the value, not of its list.
  check_refused("[run]\nstages = [\n  0,\n  true,\n]", 4, "run.stages");
}

// 1 - beta must be 2^-23 or more, and the fp32 number 0.99999994 is 1 - 2^-24. The largest scales are 2^127
// and 2^512: S * micro_batches may not leave 2^-126 .. 2^126 in any step (R5).
TEST_CASE("config: validate refuses values out of range") {
  for_each_value(R"(
    run.steps | 0 | -1 | 1000001
    run.micro_batches | 0 | -1 | 1048577
    run.stages | [-1] | [3] | [4] | [0, 1, 3]
    run.bucket_numels | [0] | [-1024] | [1] | [1000] | [1025] | [1024, 1536]
    run.omp_threads | [-1] | [1025] | [0, -5]
    run.comm_timeout_s | 0 | -1 | nan | inf | 86401
    model.layers | 0 | -1 | 65537
    model.width | 0 | -4 | 137 | 65540
    model.heads | 0 | -4 | 3 | 272
    model.hidden | 0 | 65537
    model.context | 0 | 65537
    optimizer.lr | -1e-3 | inf | -inf | nan
    optimizer.beta1 | 1 | -0.1 | 2 | nan | inf | 0.99999994
    optimizer.beta2 | 1 | -0.1 | 0.4 | 0.4999 | nan | 0.99999994
    optimizer.eps | 0 | -1e-8 | 1e-40 | nan | inf
    optimizer.weight_decay | -0.1 | inf | nan
    optimizer.max_norm | -1 | inf | nan
    loss_scaler.growth_interval | 0 | -5
    loss_scaler.hysteresis | 0 | -1
    loss_scaler.initial_loss_scale | 0x2000000 | 0.5
    loss_scaler.max_loss_scale | 32768 | 1.7014118346046923e38 | 1.3407807929942597e154
    loss_scaler.min_loss_scale | 131072 | 5e-324)",
                 [](const std::string& key, const std::string& value) {
                   const std::string text = judged(in_line_3(key, value));
                   CAPTURE(key);
                   CAPTURE(value);
                   CHECK(text != "");
                   // Stages and the order of scales are described in words, everything else is named by its
                   // key.
                   const bool by_key = key != "run.stages" && !has(key, "_loss_scale");
                   if (by_key && text != "") CHECK(has(text, key));
                 });
}

TEST_CASE("config: validate accepts the last value inside every range") {
  for_each_value(R"(
    run.steps | 1 | 1000000
    run.micro_batches | 1 | 1048576
    run.stages | [0] | [2, 1]
    run.bucket_numels | [1024, 3072]
    run.omp_threads | [0, 1, 1024]
    run.comm_timeout_s | 0.001 | 86400
    model.layers | 1 | 65536
    model.width | 4 | 65536
    model.heads | 1 | 136
    optimizer.lr | 0 | 1e300 | 5e-324
    optimizer.beta1 | 0 | 0.1 | 0.99999988
    optimizer.beta2 | 0.5 | 0.99999988
    optimizer.eps | 1.17549435e-38 | 1
    optimizer.weight_decay | 0 | 10
    optimizer.max_norm | 0 | -0.0 | 1e-300
    loss_scaler.growth_interval | 1 | 2147483647
    loss_scaler.hysteresis | 1
    loss_scaler.initial_loss_scale | 1 | 16777216
    loss_scaler.max_loss_scale | 65536 | 1152921504606846976
    loss_scaler.min_loss_scale | 0.5 | 65536)",
                 [](const std::string& key, const std::string& value) {
                   CAPTURE(key);
                   CAPTURE(value);
                   CHECK(judged(in_line_3(key, value)) == "");
                 });
}

TEST_CASE("config: validate also looks at what TOML could not have said") {
  const auto refused = [](const auto& change) {
    RunConfig config = main_config();
    change(config);
    return complaint([&] { validate(config); }) != "";
  };
  CHECK(refused([](RunConfig& c) { c.stages.clear(); }));
  CHECK(refused([](RunConfig& c) { c.worlds.clear(); }));
  CHECK(refused([](RunConfig& c) { c.dtypes.clear(); }));
  CHECK(refused([](RunConfig& c) { c.bucket_numels.clear(); }));
  CHECK(refused([](RunConfig& c) { c.omp_threads.clear(); }));
  CHECK(refused([](RunConfig& c) { c.scaler.log2_growth = 0; }));
  CHECK(refused([](RunConfig& c) { c.scaler.log2_backoff = 0; }));
  CHECK_FALSE(refused([](RunConfig& c) { c.optimizer.max_norm = std::nullopt; }));
}

TEST_CASE("config: files that cannot be read") {
  const auto about = [](const std::string& path) {
    return complaint([&] {
      RunConfig config;
      apply_toml_file(config, path);
    });
  };
  CHECK(has(about("/nowhere/at/all.toml"), "/nowhere/at/all.toml"));
  CHECK(about("") != "");
  CHECK(has(about(std::filesystem::temp_directory_path().string()),
            std::filesystem::temp_directory_path().string()));
#if defined(__linux__)
  CHECK(about("/proc/self/mem") != "");  // opens, and then every read fails
#endif
  const TemporaryFile file;
  std::ofstream(file.path) << "[run]\nsteps = none";
  CHECK(has(about(file.path), file.path + ":2:"));
  std::ofstream(file.path) << "";
  RunConfig config = main_config();
  apply_toml_file(config, file.path);
  CHECK(same(config, main_config()));
  std::filesystem::permissions(file.path, std::filesystem::perms::none);
  if (!std::ifstream(file.path).good())
    CHECK(has(about(file.path), file.path));  // root reads it all the same
}

TEST_CASE("config: parameter dtypes and the nearest word") {
  CHECK(parse_param_dtype("fp32") == DType::fp32);
  CHECK(parse_param_dtype("bf16") == DType::bf16);
  CHECK(parse_param_dtype("fp16") == DType::fp16);
  for (const char* word : {"", "fp64", "u32", "FP32", "fp16 "})
    CHECK(complaint([&] { parse_param_dtype(word); }) != "");
  const std::vector<std::string> choices = {"steps", "seed", "stages", "text"};
  CHECK(nearest("steps", choices) == "steps");
  CHECK(nearest("step", choices) == "steps");  // one inserted
  CHECK(nearest("seeed", choices) == "seed");  // one removed
  CHECK(nearest("tezt", choices) == "text");   // one replaced
  CHECK(nearest("stagse", choices) == "stages");
  CHECK(nearest("", choices) == "seed");  // the first of the shortest
  // A beginning of three characters counts for more than a small distance, one of two does not.
  CHECK(nearest("abc", {"xyz", "abcdefgh"}) == "abcdefgh");
  CHECK(nearest("ab", {"xy", "abcdefgh"}) == "xy");
  CHECK(nearest("anything", {}) == "");
}
