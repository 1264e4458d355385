#include "verification/cases/config/config.hpp"

#include <doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/paths.hpp"
#include "tests/verification/cases/config/config_cases.hpp"
#include "verification/cases/config/config_write.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

// The structured bindings name every member, so a new one does not compile until it is compared (and, with
// every_field_changed below, until it has a line in defaults.toml).
auto members(const ModelConfig& m) {
  const auto& [layers, width, heads, hidden, context] = m;
  return std::tuple(layers, width, heads, hidden, context);
}
auto members(const MuonSettings& m) {
  const auto& [family, newton_schulz, scale, scale_factor] = m;
  const auto& [coefficients, steps, form, factors, floor, eps, rounds_first] = newton_schulz;
  return std::tuple(family, coefficients, steps, form, factors, floor, eps, rounds_first, scale,
                    scale_factor);
}
auto members(const OptimizerHyper& o) {
  const auto& [rule, lr, beta1, beta2, eps, weight_decay, bias_correction, amsgrad, maximize,
               momentum, dampening, nesterov, muon, norm, max_norm, clip_value] = o;
  return std::tuple_cat(
      std::tuple(rule, lr, beta1, beta2, eps, weight_decay, bias_correction, amsgrad, maximize,
                 momentum, dampening, nesterov, norm, max_norm, clip_value),
      members(muon));
}
auto members(const LossScalerConfig& s) {
  const auto& [kind, initial, growth, backoff, min, max, interval, hysteresis, refill] = s;
  return std::tuple(kind, initial, growth, backoff, min, max, interval, hysteresis, refill);
}
auto members(const ScheduleConfig& s) {
  const auto& [unit, first_is_zero, warmup, init, warmup_shape, decay, end, min, wsd_decay,
               wsd_shape, ramp, begin, ramp_end, rates] = s;
  return std::tuple(unit, first_is_zero, warmup, init, warmup_shape, decay, end, min, wsd_decay,
                    wsd_shape, ramp, begin, ramp_end, rates);
}
auto members(const GroupRule& g) {
  const auto& [name, match, vectors, lr_mult, weight_decay_mult, lr, min_lr] = g;
  return std::tuple(name, match, vectors, lr_mult, weight_decay_mult, lr, min_lr);
}
auto members(const std::vector<GroupRule>& groups) {
  std::vector<decltype(members(GroupRule{}))> all;
  for (const GroupRule& group : groups) all.push_back(members(group));
  return all;
}
auto members(const ClipGroupRule& g) {
  const auto& [name, match, vectors, max_norm] = g;
  return std::tuple(name, match, vectors, max_norm);
}
auto members(const std::vector<ClipGroupRule>& groups) {
  std::vector<decltype(members(ClipGroupRule{}))> all;
  for (const ClipGroupRule& group : groups) all.push_back(members(group));
  return all;
}
auto members(const std::vector<MatrixSplitRule>& splits) {
  using Widths = std::vector<std::int64_t>;
  std::vector<std::tuple<std::string, std::vector<std::string>, Widths, Widths>> all;
  for (const auto& [name, match, rows, columns] : splits)
    all.emplace_back(name, match, rows, columns);
  return all;
}
auto members(const ParamScaling& s) {
  const auto& [recipe, value, initial_master, columnwise, epsilon, power_of_two, blocks, margin,
               history, choice, empty] = s;
  return std::tuple(recipe, value, initial_master, columnwise, epsilon, power_of_two, blocks,
                    margin, history, choice, empty);
}
auto members(const StateFormats& f) {
  const auto& [exp_avg, exp_avg_sq, master] = f;
  return std::tuple(exp_avg, exp_avg_sq, master);
}
auto members(const RunConfig& c) {
  const auto& [seed, steps, micro_batches, stages, worlds, grids, orders, layouts, grad_sums,
               windows, transport, instances, persistent, overlap, dtypes, buckets, threads, state,
               first, overflow, where, idle, reduction, nonfinite, missing, rounding, text, timeout,
               offload, model, scaling, optimizer, formats, scaler, schedule, param_groups,
               clip_groups, adamw, splits, owners, tensor_parallel] = c;
  const auto& [fractions, offload_orders, places, chunks, overlapped, moves_grads, folder] =
      offload;
  return std::tuple_cat(
      std::tuple(seed, steps, micro_batches, stages, worlds, grids, orders, layouts, grad_sums,
                 windows, transport, instances, persistent, overlap, dtypes, buckets, threads,
                 state, first, overflow, where, idle, reduction, nonfinite, missing, rounding, text,
                 timeout, members(param_groups), members(clip_groups), adamw, members(splits),
                 owners, tensor_parallel),
      std::tuple(fractions, offload_orders, places, chunks, overlapped, moves_grads, folder),
      members(model), members(scaling), members(optimizer), members(formats), members(scaler),
      members(schedule));
}

bool same(const RunConfig& a, const RunConfig& b) { return members(a) == members(b); }

RunConfig every_field_changed() {
  RunConfig c = main_config();
  c.state_formats = {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16};
  ++c.seed;
  ++c.steps;
  ++c.micro_batches;
  c.comm_timeout_s += 0.5;
  c.stages.push_back(9);
  c.worlds.clear();
  c.grids.push_back("9x9x9");
  c.orders.push_back(MicroBatchOrder::strided);
  c.layouts.push_back(LayoutKind::greedy);
  c.grad_sums.push_back(GradSum::native);
  c.windows.push_back(Windows::params);
  c.transport.push_back(Transport::nccl);
  c.instances = 5;
  c.persistent_numel = 5;
  c.overlap = !c.overlap;
  c.offload = {{0.25, 1},  {OffloadOrder::tensors}, {OffloadPlace::file}, {7}, {false}, {true},
               "elsewhere"};
  c.param_groups.emplace_back();
  c.clip_groups.emplace_back();
  c.muon_adamw = {"lm_head"};
  c.matrix_splits.emplace_back();
  c.matrix_owners = MatrixOwners::balanced;
  c.matrix_tensor_parallel = MatrixTensorParallel::distributed;
  ScheduleConfig& h = c.schedule;
  h.unit = ScheduleUnit::samples;
  h.first_is_zero = !h.first_is_zero;
  for (std::int64_t* value : {&h.warmup, &h.decay_end, &h.wsd_decay, &h.weight_decay_end}) ++*value;
  for (double* value : {&h.warmup_init_lr, &h.min_lr, &h.weight_decay_begin}) *value += 1;
  h.decay = DecayShape::wsd;
  h.warmup_shape = WarmupShape::log;
  h.rates = {0.1, 2.5e-4, 0x1.fffffffffffffp-12};
  h.wsd_shape = WsdShape::minus_sqrt;
  h.weight_decay_ramp = RampShape::cosine;
  c.dtypes.push_back(DType::u64);
  c.bucket_numels.push_back(5);
  c.omp_threads.push_back(3);
  c.text += "elsewhere";
  c.initial_state =
      c.initial_state == InitialState::zero ? InitialState::seeded : InitialState::zero;
  c.initial_step += 1;
  c.overflow_step += 1;
  c.overflow_tensor += "head.weight";
  c.idle_tensors = !c.idle_tensors;
  c.loss_reduction = LossReduction::tokens;
  c.on_nonfinite = OnNonfinite::propagate;
  c.missing_grad = MissingGrad::skip;
  c.param_rounding = ParamRounding::stochastic;
  c.scaling = {ScaleRecipe::delayed,
               QuantizedValue::through_bf16,
               InitialMaster::dequantised,
               true,
               0x1.8p-130F,
               true,
               ScaleBlocks::row_128,
               3,
               7,
               AmaxChoice::most_recent,
               EmptyAmax::roll};
  ModelConfig& m = c.model;
  for (int* value : {&m.layers, &m.width, &m.heads, &m.hidden, &m.context}) ++*value;
  OptimizerHyper& o = c.optimizer;
  for (double* value : {&o.lr, &o.eps, &o.weight_decay}) *value += 1;
  for (float* value : {&o.beta1, &o.beta2}) *value += 1;
  o.max_norm = -3.0;
  o.clip_value = 7.0;
  o.rule = UpdateRule::sgd_ema;
  o.norm = NormForm::one;
  for (double* value : {&o.momentum, &o.dampening}) *value += 0.5;
  for (bool* value : {&o.bias_correction, &o.amsgrad, &o.maximize, &o.nesterov}) *value = !*value;
  o.muon = {MomentumFamily::heavy_ball,
            {NewtonSchulzSet::cans, 7, PolynomialForm::scaled_product, MatrixFactors::fp32,
             NormFloor::add, 0.5, true},
            MuonScale::unit_rms_norm,
            0.3};
  LossScalerConfig& s = c.scaler;
  s.kind = s.kind == LossScalerKind::none ? LossScalerKind::constant : LossScalerKind::none;
  s.refill =
      s.refill == HysteresisRefill::growth ? HysteresisRefill::good_step : HysteresisRefill::growth;
  for (int* value : {&s.log2_initial, &s.log2_growth, &s.log2_backoff, &s.log2_min, &s.log2_max,
                     &s.growth_interval, &s.hysteresis}) {
    ++*value;
  }
  return c;
}

const std::string source_dir = zeroproof::tests::source_folder();
const std::string defaults_file = source_dir + "/verification/cases/config/defaults.toml";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Keys of the parser's tables: "section.name" in quotation marks.
std::set<std::string> known_keys(const std::string& sections) {
  const std::string parser =
      content_of(source_dir + "/verification/cases/config/config_toml.cpp") +
      content_of(source_dir + "/verification/cases/config/config_groups_toml.cpp") +
      content_of(source_dir + "/verification/cases/config/config_scaling_toml.cpp") +
      content_of(source_dir + "/verification/cases/config/config_muon_toml.cpp");
  const std::regex row("\"((" + sections + ")\\.[a-z0-9_]+)\"");
  std::set<std::string> known;
  const std::sregex_iterator begin(parser.begin(), parser.end(), row);
  for (auto match = begin; match != std::sregex_iterator(); ++match) known.insert((*match)[1]);
  return known;
}

/// Assignments of a TOML text with their section; each occurs once.
std::set<std::string> assigned_keys(const std::string& text) {
  std::istringstream lines(text);
  std::set<std::string> shown;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '[') {
      const std::size_t begin = line.find_first_not_of('[');
      section = line.substr(begin, line.find(']') - begin) + ".";
    }
    const std::regex assignment("^([a-z0-9_]+) =.*");
    std::smatch match;
    if (std::regex_match(line, match, assignment))
      CHECK(shown.insert(section + match[1].str()).second);
  }
  return shown;
}

/// A unique path in the temporary folder, removed at the end.
struct TemporaryFile {
  std::string path =
      (std::filesystem::temp_directory_path() / "zeroproof_config_test_").string() +
      std::to_string(std::filesystem::file_time_type::clock::now().time_since_epoch().count());
  ~TemporaryFile() { std::remove(path.c_str()); }
};

}  // namespace

TEST_CASE("config: applying defaults.toml results in main_config()") {
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

// Key by key, so that a failure names the outdated line.
TEST_CASE("config: every line of defaults.toml is the value of main_config()") {
  std::istringstream lines(content_of(defaults_file));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '[') section = line;
    if (!has(line, "=") || line[0] == '#') continue;
    CAPTURE(line);
    CHECK(has(line, "#"));  // an explanation
    CHECK(same(applied(section + "\n" + line), main_config()));
  }
}

TEST_CASE("config: to_toml round trip keeps every setting") {
  RunConfig odd = every_field_changed();
  odd.worlds = {"self", "mpi:3"};
  odd.dtypes = {DType::fp32, DType::bf16};
  odd.seed = INT64_MAX;
  odd.overflow_tensor = "a \"quoted\" name\n\t\\";
  odd.optimizer.lr = 1.0 / 3;
  odd.optimizer.eps = 0x1.fffffffffffffp-1022;
  odd.optimizer.weight_decay = 1e22;
  odd.optimizer.clip_value = std::nullopt;
  odd.scaler.log2_max = 126;
  odd.scaler.log2_min = -126;
  GroupRule& group = odd.param_groups.front();
  group = {"no_decay", {"*.bias", "?"}, true, 0.1, 0.7, 3e-4, 1e-5};
  odd.param_groups.push_back({"rest", {}, false, 1, 1, std::nullopt, std::nullopt});
  odd.clip_groups = {{"embed", {"*embed*", "?"}, true, 1.0 / 3},
                     {"free", {"x"}, false, 0.0},
                     {"rest", {}, true, {}}};
  odd.muon_adamw = {};
  odd.matrix_splits = {{"qkv", {"*.qkv", "?"}, {5, 5, 7}, {}}, {"heads", {"x"}, {}, {1}}};
  for (const RunConfig& config : {odd, main_config(), tiny_config()}) {
    const std::string text = to_toml(config);
    CAPTURE(text);
    for (RunConfig back : {main_config(), tiny_config(), every_field_changed()}) {
      apply_toml(back, text, "written");
      CHECK(same(back, config));
    }
  }
  odd.seed = std::uint64_t{1} << 63;
  CHECK_THROWS_AS(to_toml(odd), Error);
}

TEST_CASE("config: defaults.toml has every key of the parser once") {
  std::set<std::string> known =
      known_keys("run|offload|model|optimizer|loss_scaler|schedule|scaling|muon");
  known.insert("param_group");
  known.insert("clip_group");
  known.insert("matrix_split");
  CHECK(known.size() == std::tuple_size_v<decltype(members(main_config()))>);  // one key per field
  CHECK(assigned_keys(content_of(defaults_file)) == known);
}

// Both starting points differ in every field, as the first test checks.
TEST_CASE("config: set_tiny assigns every field") {
  RunConfig config = main_config();
  set_tiny(config);
  RunConfig other = every_field_changed();
  set_tiny(other);
  CHECK(same(config, other));
  CHECK(same(config, tiny_config()));
}

namespace {
/// A group that defaults.toml has as a comment, up to the next empty line.
std::string group_shown(const std::string& section) {
  const std::string file = content_of(defaults_file);
  const std::size_t begin = file.find("# [[" + section + "]]");
  REQUIRE(begin != std::string::npos);
  const std::string text = file.substr(begin, file.find("\n\n", begin) - begin);
  return std::regex_replace(text, std::regex("(^|\n)# "), "$1");
}
}  // namespace

TEST_CASE("config: the example clip group of defaults.toml has every key and is valid") {
  const std::string group = group_shown("clip_group");
  CHECK(assigned_keys(group) == known_keys("clip_group"));
  const RunConfig config = applied(group);
  REQUIRE(config.clip_groups.size() == 1);
  CHECK(config.clip_groups[0].match == std::vector<std::string>{"*embedding*"});
  CHECK(config.clip_groups[0].max_norm == 1.0);
  validate(config);
}

TEST_CASE("config: the example matrix split of defaults.toml has every key and is valid") {
  const std::string split = group_shown("matrix_split");
  CHECK(assigned_keys(split) == known_keys("matrix_split"));
  const RunConfig config = applied("[optimizer]\nrule = \"muon\"\n" + split);
  REQUIRE(config.matrix_splits.size() == 1);
  CHECK(config.matrix_splits[0].match == std::vector<std::string>{"*.attention.query.weight"});
  const std::vector<std::int64_t> heads(config.model.heads,
                                        config.model.width / config.model.heads);
  CHECK(config.matrix_splits[0].columns == heads);
  validate(config);
}

TEST_CASE("config: the example param group of defaults.toml has every key and is valid") {
  const std::string group = group_shown("param_group");
  CHECK(assigned_keys(group) == known_keys("param_group"));
  RunConfig config = applied(group);
  REQUIRE(config.param_groups.size() == 1);
  CHECK(config.param_groups[0].match == std::vector<std::string>{"*.bias"});
  CHECK(config.param_groups[0].weight_decay_mult == 0);
  validate(config);
}

TEST_CASE("config: both ready-made configurations are valid") {
  CHECK_NOTHROW(validate(main_config()));
  CHECK_NOTHROW(validate(tiny_config()));
}

TEST_CASE("config: valid TOML is applied") {
  CHECK(same(applied(""), main_config()));
  CHECK(same(applied("# nothing but a remark\n\n"), main_config()));
  CHECK(same(applied("\r\n"), main_config()));
  CHECK(applied("[run]\r\nsteps = 7 # with CRLF\r\nseed=9\r\n").steps == 7);
  CHECK(applied("\xEF\xBB\xBF[run]\nsteps = 8").steps ==
        8);  // byte order mark, no newline at the end
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
  CHECK(applied("[run]\ngrids = [\"2x1x4\", \"1x1x1\"]").grids ==
        std::vector<std::string>{"2x1x4", "1x1x1"});
  CHECK(applied("[run]\ngrids = []").grids.empty());
  CHECK(applied("[run]\norders = [\"strided\", \"contiguous\"]").orders ==
        std::vector<MicroBatchOrder>{MicroBatchOrder::strided, MicroBatchOrder::contiguous});
  CHECK(applied("[run]\nlayouts = [\"fsdp2\", \"greedy\"]").layouts ==
        std::vector<LayoutKind>{LayoutKind::fsdp2, LayoutKind::greedy});
  CHECK(applied("[run]\nwindows = [\"params\"]").windows == std::vector<Windows>{Windows::params});
  CHECK(applied("[run]\nwires = [\"nccl\"]").transport == std::vector<Transport>{Transport::nccl});
  CHECK(applied("[run]\ngrad_sums = [\"binned\"]").grad_sums ==
        std::vector<GradSum>{GradSum::binned});
  CHECK(applied("[run]\ntext = 'a b/c#d.txt'").text == "a b/c#d.txt");
}

// 2^53 + 1 and 2^63 - 1 are no powers of two, though the fp64 numbers nearest to them are.
// 1 - beta must be 2^-23 or more, and the fp32 number 0.99999994 is 1 - 2^-24. The largest scales are 2^127
// and 2^512: S * micro_batches may not leave 2^-126 .. 2^126 in any step (R5).
TEST_CASE("config: unreadable files are refused") {
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
  CHECK(about("/proc/self/mem") != "");  // the file opens, and every read fails
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
    CHECK(has(about(file.path), file.path));  // root can read it
}
