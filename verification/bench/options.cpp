#include "verification/bench/options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "verification/bench/command_line.hpp"
#include "verification/bench/measure/worker_team.hpp"
#include "verification/bench/product/product_rows.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::int64_t most_numel = std::int64_t{1} << 36;

void add_product_options(CLI::App& app, Options& options) {
  app.add_option("--micro-batches", options.micro_batches, "product rows: micro-batches, such as 1,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--tensors", options.tensors, "product rows: tensors the parameters are cut into")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app.add_option("--stages", options.stages, "product rows: ZeRO stages")
      ->delimiter(',')
      ->check(CLI::Range(0, 3));
  app.add_option("--grads", options.grads, "product rows: fp32, bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--bucket", options.bucket_numel, "product: elements reduced together, a multiple of 1024")
      ->check(CLI::Range(layout_alignment, most_numel))
      ->capture_default_str();
  app.add_option("--save", options.save,
                 "write the inputs and results of the one product row to this safetensors file");
  app.add_flag("--sweep", options.sweep,
               "measure the product over parameters, tensors, micro-batches and buckets instead (3 passes)");
  app.add_option("--checkpoint", options.checkpoint,
                 "measure checkpoints that are saved into this folder, and removed, instead");
  app.add_option("--offload", options.offload,
                 "measure steps with state in memory of the host and in a file in this folder instead");
  app.add_option("--ranks", options.ranks,
                 "--checkpoint: ranks that save, threads of one process; default: 1,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--rows", options.rows,
                 "all, kernels (twins, rules and their limits), or product (whole steps)")
      ->check(CLI::IsMember({"all", "kernels", "product"}))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "times every row is measured; default: 15, product rows 7")
      ->check(CLI::Range(1, 10000));
  auto* mib =
      app.add_option("--mib", options.mib,
                     "kernel rows: MiB of gradient, master and moments (they need about 4 times this)")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
  app.add_option("--numel", options.numel_asked,
                 "elements of every row; default: kernels as --mib says, product 16777216")
      ->check(CLI::Range(std::int64_t{1}, most_numel))
      ->excludes(mib);
  app.add_option("--threads", options.threads, "worker threads; default: all cores")
      ->check(CLI::Range(1, 4096));
  app.add_option("--json", options.json, "write the record to this file");
  add_product_options(app, options);
}

/// No flag is ignored, and no number silently replaced.
void check(const CLI::App& app, const Options& options) {
  const bool asked = !options.micro_batches.empty() || !options.tensors.empty() || !options.stages.empty() ||
                     !options.grads.empty();
  ZP_CHECK(!asked || options.product(), ErrorCode::invalid_argument,
           "--micro-batches, --tensors, --stages and --grads were given without product rows",
           "they say which of those are measured",
           "leave out --rows kernels, --sweep, --checkpoint and --offload, or these");
  ZP_CHECK(!options.sweep || options.rows == "all", ErrorCode::invalid_argument,
           "--sweep was given with --rows", "a sweep has no rows", "leave one of them out");
  ZP_CHECK(options.checkpoint.empty() || (!options.sweep && options.rows == "all"),
           ErrorCode::invalid_argument, "--checkpoint was given with --rows or --sweep",
           "saves are measured by themselves", "leave one of them out");
  ZP_CHECK(options.offload.empty() || (!options.sweep && options.checkpoint.empty() && options.rows == "all"),
           ErrorCode::invalid_argument, "--offload was given with --rows, --sweep or --checkpoint",
           "state elsewhere is measured by itself", "leave one of them out");
  ZP_CHECK(options.ranks.empty() || !options.checkpoint.empty(), ErrorCode::invalid_argument,
           "--ranks was given without --checkpoint", "only saves are measured by several",
           "give --checkpoint FOLDER, or run zeroproof-bench-ranks");
  ZP_CHECK(options.kernels() || app.count("--mib") == 0, ErrorCode::invalid_argument,
           "--mib was given without kernel rows", "it says how large those are",
           "give --numel, or leave it out");
  ZP_CHECK(!options.kernels() || options.product() || app.count("--bucket") == 0, ErrorCode::invalid_argument,
           "--bucket was given without product rows", "only those reduce in buckets", "leave it out");
  ZP_CHECK(options.save.empty() || (options.product() && options.product_cases().size() == 1),
           ErrorCode::invalid_argument, "--save was given without exactly one product row",
           "the file holds one step's inputs and results",
           "choose one, such as --rows product --tensors 1 --micro-batches 1");
  ZP_CHECK(options.bucket_numel % layout_alignment == 0, ErrorCode::invalid_argument,
           "--bucket is " + std::to_string(options.bucket_numel),
           "buckets are cut at multiples of 1024 elements", "choose a multiple of 1024");
  ZP_CHECK(!options.kernels() || options.numel() % work_block == 0, ErrorCode::invalid_argument,
           "the kernel rows cannot have " + std::to_string(options.numel()) + " elements",
           "their loops work on blocks of " + std::to_string(work_block),
           "choose a multiple of that, or --rows product");
}

/// Those of a list, or the one usual value.
template <class T>
std::vector<T> or_usual(const std::vector<T>& values, T usual) {
  return values.empty() ? std::vector<T>{usual} : values;
}

}  // namespace

std::vector<ProductCase> Options::product_cases() const {
  const std::int64_t count = product_numel();
  if (micro_batches.empty() && tensors.empty() && stages.empty() && grads.empty())
    return usual_cases(count, bucket_numel, threads);
  std::vector<ProductCase> cases;
  for (const std::string& grad : or_usual(grads, std::string("fp32"))) {
    const DType dtype = grad == "bf16" ? DType::bf16 : DType::fp32;
    for (const std::int64_t m : or_usual(micro_batches, std::int64_t{1})) {
      for (const std::int64_t t : or_usual(tensors, std::int64_t{1})) {
        for (const int stage : or_usual(stages, 0))
          cases.push_back({m, t, stage, dtype, count, bucket_numel, threads});
      }
    }
  }
  return cases;
}

std::vector<ProductCase> Options::save_cases() const {
  std::vector<ProductCase> cases;
  for (const int count : ranks.empty() ? std::vector<int>{1, 2} : ranks) {
    ProductCase what{16,
                     1,
                     1,
                     DType::fp32,
                     numel_asked > 0 ? numel_asked : std::int64_t{1} << 25,
                     bucket_numel,
                     std::max(1, threads / count)};
    what.ranks = count;
    cases.push_back(what);
  }
  return cases;
}

ProductCase Options::offload_case() const {
  return {1, 1, 1, DType::fp32, product_numel(), bucket_numel, threads};
}

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
  Options options;
  CLI::App app(
      "zeroproof-bench measures the host twins and whole steps of the production optimizer against the "
      "memory of "
      "this machine, in one process");
  app.set_version_flag("--version", "zeroproof-bench " ZP_VERSION);
  add_options(app, options);
  if (!understood(app, "zeroproof-bench", argc, argv, exit_code)) return std::nullopt;
  if (options.threads == 0) options.threads = available_cores();
  check(app, options);
  return options;
}

}  // namespace zeroproof::verification::bench
