#include <doctest.h>

#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/verification/cases/config/config_cases.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

/// Calls body(key, value) for every value of a table with one key per line: "key | value | value".
template <class Body>
void for_each_value(const std::string& table, const Body& body) {
  std::istringstream lines(table);
  const auto trimmed = [](const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    return begin == std::string::npos ? ""
                                      : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  };
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string key;
    std::getline(cells, key, '|');
    for (std::string value; std::getline(cells, value, '|');) body(trimmed(key), trimmed(value));
  }
}

}  // namespace

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
    optimizer.lr | optimiser.lr
    model.heads | model.head | model.haeds
    run.grad_sums | run.grad_sum | run.gradsums
    run.windows | run.window | run.widows
    run.wires | run.wire | run.wirse
    offload.fractions | offload.fraction | ofload.fractions
    offload.chunk_numels | offload.chunk_numel
    run.layouts | run.layout | run.lauouts
    schedule.warmup | schedule.warm_up | shedule.warmup
    schedule.weight_decay_end | schedule.weight_decay_ends | schedul.weight_decay_end
    loss_scaler.hysteresis | loss_scaler.histeresis | loss_scale.hysteresis)",
                 [](const std::string& meant, const std::string& written) {
                   check_refused(in_line_3(written, "1"), 3, "did you mean " + meant + "?");
                 });
  check_refused("seed = 3", 1, "unknown key seed");
  check_refused("run = 1", 1, "unknown key run");
  check_refused("[[run]]\nsteps = 1", 1, "run");
  check_refused("[run.steps]\nx = 1", 1, "run.steps");
  check_refused("[run.sub]\nsteps = 1", 1, "unknown key run.sub");
  check_refused("[model]\n\n\"\" = 1", 3, "unknown key model.");
  check_refused("[[param_group]]\nmatches = [\"*\"]", 2, "did you mean param_group.match?");
  check_refused("[[param_group]]\nname = \"a\"\n[[param_group]]\nname = \"b\"\nlr_mul = 2", 5,
                "did you mean param_group.lr_mult?");
  check_refused("[[clip_group]]\nname = \"a\"\nmax_nor = 2", 3,
                "did you mean clip_group.max_norm?");
  check_refused("[[clip_group]]\nlr_mult = 2", 2, "unknown key clip_group.lr_mult");
  check_refused("[[param_groups]]\nname = \"a\"", 1, "unknown key param_groups");
  check_refused("[[param_group]]\n[param_group.sub]\nx = 1", 2, "unknown key param_group.sub");
  check_refused("\"run.steps\" = 7", 1, "unknown key");  // a quoted dot does not separate
  check_refused("[run]\n[optimiser]\n", 2,
                "unknown key");  // a misspelt section that has only comments
  check_refused("[run]\n\"a\\nb\" = 7", 2,
                "unknown key");  // the line feed must not reach the message
}

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
    run.grids | "1x1x1" | [1] | [["1x1x1"]]
    run.orders | "strided" | [] | ["Strided"] | [1]
    run.layouts | "contract" | [] | ["zero"] | [2]
    run.grad_sums | "tree" | [] | ["sum"]
    run.windows | "on" | [] | ["open"]
    run.wires | "nccl" | [] | ["rccl"]
    offload.fractions | 0.5 | [] | ["half"]
    offload.orders | "flat" | [] | ["Flat"]
    offload.places | "host" | [] | ["disk"]
    offload.chunk_numels | 4096 | [] | [1.5]
    offload.overlaps | 1 | true | [] | ["on"]
    offload.grads | 1 | false | [] | [0]
    offload.folder | 1 | ["a"]
    run.instances | 1.5 | "1" | 3000000000
    run.persistent_numel | 1e3 | true
    run.overlap | 1 | "true"
    schedule.unit | "step" | 1
    schedule.first_is_zero | 0
    schedule.warmup | 1.0 | "1"
    schedule.decay | "Cosine" | "wds" | true
    schedule.warmup_shape | "exponential" | 1
    schedule.rates | 1e-3 | ["1"] | "rates.txt"
    schedule.decay_end | 10.5
    schedule.min_lr | "0"
    schedule.wsd_decay | 0.1
    schedule.wsd_shape | "sqrt"
    schedule.weight_decay_ramp | "exponential"
    schedule.weight_decay_begin | true
    schedule.weight_decay_end | 1.0
    run.text | 3
    run.initial_state | "one" | "Zero"
    loss_scaler.kind | "Dynamic" | 1
    loss_scaler.hysteresis_refill | "never" | 0
    optimizer.bias_correction | 1 | "true"
    loss_scaler.max_loss_scale | 9007199254740993 | 9223372036854775807
    loss_scaler.growth_factor | 1 | 0.5
    loss_scaler.backoff_factor | 1 | 2.0)",
                 check);
  for (const char* key : {"initial_loss_scale", "growth_factor", "backoff_factor", "min_loss_scale",
                          "max_loss_scale"}) {
    for_each_value(
        std::string("loss_scaler.") + key + " | 3 | 0 | -2 | nan | inf | 1.5 | 0.3 | -0.5", check);
  }
  for (const char* key :
       {"run.steps", "run.text", "run.worlds", "run.initial_state", "run.comm_timeout_s",
        "model.width", "optimizer.lr", "optimizer.max_norm", "optimizer.bias_correction",
        "loss_scaler.kind", "loss_scaler.growth_interval", "loss_scaler.initial_loss_scale"}) {
    for_each_value(
        key + std::string(" | 1979-05-27 | 07:32:00 | 1979-05-27T07:32:00Z | { x = 1 } | {} | [1]"),
        check);
  }
  for (const char* key :
       {"run.steps", "run.comm_timeout_s", "optimizer.lr", "optimizer.beta1", "model.hidden"}) {
    for_each_value(key + std::string(" | \"1\" | true"), check);
  }
  check("run.steps", "\"\"\"\n1\n2\"\"\"");  // the message stays in one line
  // The line of the value, not of its list.
  check_refused("[run]\nstages = [\n  0,\n  true,\n]", 4, "run.stages");
}

TEST_CASE("config: validate refuses values out of range") {
  for_each_value(R"(
    run.steps | 0 | -1 | 1000001
    run.micro_batches | 0 | -1 | 1048577
    run.stages | [-1] | [4] | [0, 1, 4]
    run.instances | 0 | -1
    run.persistent_numel | -1
    run.grids | ["1x1"] | ["2x3x1"] | ["1x4x4"] | ["1x1x1", ""]
    schedule.warmup | -1 | 9007199254740993
    schedule.warmup_init_lr | -1e-9 | inf | nan
    schedule.min_lr | -1e-9 | inf | nan
    schedule.decay_end | -1
    schedule.wsd_decay | -1
    schedule.weight_decay_begin | -1 | nan
    schedule.weight_decay_end | -1
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
    optimizer.beta2 | 1 | -0.1 | -1e-9 | nan | 0.99999994
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
                   // Stages, grids and the order of scales are described in words, all else is
                   // named by its key.
                   const bool by_key =
                       key != "run.stages" && key != "run.grids" && !has(key, "_loss_scale");
                   if (by_key && text != "") CHECK(has(text, key));
                 });
}

TEST_CASE("config: validate accepts the last value inside every range") {
  for_each_value(R"(
    run.steps | 1 | 1000000
    run.micro_batches | 1 | 1048576
    run.stages | [0] | [2, 1] | [3] | [0, 1, 2, 3]
    run.instances | 1 | 1000
    run.persistent_numel | 0 | 9223372036854775807
    run.overlap | true
    run.grids | [] | ["1x1x1"] | ["3x1x1", "1048576x1x1"]
    run.orders | ["contiguous", "strided", "by_stage"]
    run.grad_sums | ["tree", "binned", "native"]
    run.windows | ["off", "on", "params"]
    run.wires | ["copies", "nccl"]
    schedule.warmup | 0 | 9007199254740992
    schedule.min_lr | 1
    run.bucket_numels | [1024, 3072]
    run.omp_threads | [0, 1, 1024]
    run.comm_timeout_s | 0.001 | 86400
    model.layers | 1 | 65536
    model.width | 4 | 65536
    model.heads | 1 | 136
    optimizer.lr | 0 | 1e300 | 5e-324
    optimizer.beta1 | 0 | 0.1 | 0.99999988
    optimizer.beta2 | 0 | 1e-45 | 0.25 | 0.5 | 0.99999988
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

TEST_CASE("config: validate also checks values that TOML cannot express") {
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
  CHECK(refused([](RunConfig& c) { c.orders.clear(); }));
  CHECK(refused([](RunConfig& c) { c.layouts.clear(); }));
  CHECK(refused([](RunConfig& c) { c.grad_sums.clear(); }));
  CHECK(refused([](RunConfig& c) { c.windows.clear(); }));
  for (const double fraction : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    CHECK(refused([&](RunConfig& c) { c.offload.fractions = {0.5, fraction}; }));
  CHECK(refused([](RunConfig& c) { c.offload.fractions.clear(); }));
  CHECK(refused([](RunConfig& c) { c.offload.places.clear(); }));
  CHECK(refused([](RunConfig& c) { c.offload.chunk_numels = {0}; }));
  CHECK(refused([](RunConfig& c) { c.transport.clear(); }));
  CHECK_FALSE(refused([](RunConfig& c) { c.grids.clear(); }));
  CHECK(refused([](RunConfig& c) { c.scaler.log2_growth = 0; }));
  CHECK(refused([](RunConfig& c) { c.scaler.log2_backoff = 0; }));
  CHECK_FALSE(refused([](RunConfig& c) { c.optimizer.max_norm = std::nullopt; }));
}

TEST_CASE("config: JSON of DeepSpeed is refused with its settings in the terms of this project") {
  const auto said = [](const std::string& text) {
    return complaint([&] { refuse_deepspeed(text, "ds.json"); });
  };
  const std::string both = said(R"(
    {"optimizer": {"type": "Adam", "params": {"lr": 3e-4, "betas": [0.9, 0.95]}},
     "fp16": {"enabled": true, "initial_scale_power": 16, "hysteresis": 2},
     "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}})");
  CAPTURE(both);
  CHECK(has(both, "ds.json is a configuration of DeepSpeed ("));
  CHECK(has(
      both,
      "write optimizer.lr = 0.0003, loss_scaler.initial_loss_scale = 65536, "
      "loss_scaler.hysteresis = 2 in TOML, and give --stage 2 --bucket 500000000 --dtype fp16"));
  CHECK(has(said(R"({"gradient_clipping": 1.0})"), "write optimizer.max_norm = 1 in TOML"));
  CHECK(has(said(R"({"bf16": {"enabled": true}})"), "; write give --dtype bf16") == false);
  CHECK(has(said(R"({"bf16": {"enabled": true}})"), "; give --dtype bf16"));
  CHECK(has(said(R"({"bf16": {"enabled": 1}, "fp16": []})"), "; write a TOML file"));
  CHECK(has(said(R"({"lr": 1})"), "ds.json is JSON ("));
  for (const char* text : {"", "a = 1", "{", " {\"a\": }", "[a]"}) CHECK(said(text).empty());
}

TEST_CASE("config: the limit of the norm has a reason for every wrong value") {
  CHECK(has(judged("[optimizer]\nmax_norm = -1"), "a negative limit"));
  CHECK(has(judged("[optimizer]\nmax_norm = inf"), "the limit of a norm is a number"));
  CHECK(has(judged("[optimizer]\nmax_norm = nan"), "the limit of a norm is a number"));
}
