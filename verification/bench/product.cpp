#include <algorithm>
#include <memory>
#include <tuple>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/bench/yardstick.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Cases that differ in the stage alone have the same result, which neighbours share.
class Contract {
 public:
  const ContractResult& of(const ProductCase& what, const FlatLayout& layout, std::int64_t steps) {
    const Key key{what.micro_batches, what.tensors, what.numel, what.grad_dtype, steps};
    if (result_ == nullptr || key != key_) {
      result_.reset();
      result_ = std::make_unique<ContractResult>(contract_steps(
          {layout, what.micro_batches, what.num_leaves(), steps, what.grad_dtype, what.threads}));
      key_ = key;
    }
    return *result_;
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, DType, std::int64_t>;
  Key key_;
  std::unique_ptr<ContractResult> result_;
};

void write_filled(SafetensorsWriter& writer, const std::string& name, std::int64_t numel,
                  void (*fill)(std::int64_t, Span<float>)) {
  constexpr std::int64_t block = 65536;
  std::vector<float> values;
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    values.resize(std::min(block, numel - begin));
    fill(begin, values);
    writer.write(name, std::as_bytes(Span<const float>(values)));
  }
}

/// Writes the inputs with which another program can take the same steps, and their results: a
/// safetensors file with
///   leaf.0 ...                    the gradients; micro-batch j has gradient j mod their number
///   first.master, .exp_avg, .exp_avg_sq    before the first step
///   master, param                 after the last one, the same as the product's
///   tensor_begin, tensor_numel    where the tensors are in all of these [tensors]
/// and with steps, steps_before, log2_loss_scale and micro_batches in its metadata.
void save_case(const std::string& file, const ProductCase& what, const FlatLayout& layout,
               const Leaves& leaves, std::int64_t steps, const ContractResult& result) {
  const std::int64_t numel = layout.padded_numel();
  std::vector<SafeTensorSpec> specs;
  const SafeDType leaf_dtype = what.grad_dtype == DType::fp32 ? SafeDType::f32 : SafeDType::bf16;
  for (std::int64_t j = 0; j < what.num_leaves(); ++j)
    specs.push_back({"leaf." + std::to_string(j), leaf_dtype, {numel}});
  for (const char* name : {"first.master", "first.exp_avg", "first.exp_avg_sq", "master"})
    specs.push_back({name, SafeDType::f32, {numel}});
  specs.push_back({"param", SafeDType::bf16, {numel}});
  for (const char* name : {"tensor_begin", "tensor_numel"})
    specs.push_back({name, SafeDType::i64, {what.tensors}});
  SafetensorsWriter writer(file, specs,
                           {{"steps", std::to_string(steps)},
                            {"steps_before", std::to_string(steps_before)},
                            {"log2_loss_scale", std::to_string(log2_loss_scale)},
                            {"micro_batches", std::to_string(what.micro_batches)}});
  for (std::int64_t j = 0; j < what.num_leaves(); ++j) {
    const TensorView leaf = leaves.view(j);
    writer.write("leaf." + std::to_string(j), {static_cast<const std::byte*>(leaf.data),
                                               static_cast<std::size_t>(leaf.num_bytes())});
  }
  write_filled(writer, "first.master", numel, fill_master);
  write_filled(writer, "first.exp_avg", numel, fill_exp_avg);
  write_filled(writer, "first.exp_avg_sq", numel, fill_exp_avg_sq);
  writer.write("master", std::as_bytes(Span<const float>(result.master)));
  writer.write("param", std::as_bytes(Span<const bf16>(result.param)));
  for (const TensorSlot& tensor : layout.tensors()) {
    writer.write("tensor_begin", std::as_bytes(Span<const std::int64_t>(&tensor.begin, 1)));
    writer.write("tensor_numel", std::as_bytes(Span<const std::int64_t>(&tensor.numel, 1)));
  }
  writer.finish();
}

/// Seconds of each round in which only the bytes are moved: M - 1 additions, read, update.
std::vector<double> limit_seconds(const ProductCase& what, const std::vector<Row>& rows) {
  std::vector<double> sum(rows.front().seconds.size(), 0.0);
  const auto add = [&](const char* shape, std::int64_t times) {
    const Row* row = best_limit(rows, shape);
    for (std::size_t i = 0; row != nullptr && i < sum.size(); ++i)
      sum[i] += times * row->seconds[i];
  };
  add("addition", what.micro_batches - 1);
  add("read", 1);
  add("update", 1);
  return sum;
}

/// Moved by those, per parameter. Of several gradients the sum is read, twice.
double limit_bytes(const ProductCase& what) {
  const std::int64_t added = what.micro_batches - 1, width = num_bytes(what.grad_dtype);
  return added * (8 + width) + 2 * (added > 0 ? 4 : width) + 26;
}

Json measure_case(const ProductCase& what, const Options& options, WorkerTeam& team,
                  Contract& contract, Report& report) {
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  Yardstick yardstick(what, layout.padded_numel(), leaves, team);
  const std::unique_ptr<Communicator> self = make_self_communicator();
  ProductStep product(what, layout, leaves, yardstick.first_state(), *self);
  product.step();  // the first round is dropped, so that kept rounds start after the second step
  yardstick.step();
  std::vector<Row> rows = yardstick.rows();
  rows.insert(rows.begin(), {"product", 0, what.numel, timed([&] { product.step(); })});
  measure(rows, options.rounds);

  const Row &step = rows[0], &operations = rows[1], &addition = rows[2];
  const std::vector<double> reduce(product.reduce_seconds().end() - options.rounds,
                                   product.reduce_seconds().end());
  const std::vector<double> limit = limit_seconds(what, rows);
  const ContractResult& wanted = contract.of(what, layout, product.steps());
  const bool same = product.as_contract(wanted);
  report.count({step, operations, addition});
  report.check("product = contract: master, moments, bf16 parameters", same, what.text());
  report.check("product: an infinite gradient changes nothing", product.skips_infinity(wanted),
               what.text());
  // For more gradients the tree differs from sequential additions.
  if (what.tensors == 1 && what.micro_batches <= 2)
    report.check("operations of a product row = contract", yardstick.as_contract(wanted),
                 what.text());
  if (!options.save.empty() && same)
    save_case(options.save, what, layout, leaves, product.steps(), wanted);
  return {{"micro_batches", what.micro_batches},
          {"tensors", what.tensors},
          {"stage", what.stage},
          {"grad_dtype", name(what.grad_dtype)},
          {"numel", what.numel},
          {"bucket_numel", what.bucket_numel},
          {"ranks", what.ranks},
          {"bytes_per_parameter", limit_bytes(what)},
          {"best_s", step.best()},
          {"median_s", median_of(step.seconds)},
          {"samples_s", step.seconds},
          {"reduce_samples_s", reduce},
          {"implementations_samples_s", operations.seconds},
          {"addition_samples_s", addition.seconds},
          {"limit_samples_s", limit},
          {"step_to_implementations", ratios_value(quotients(step.seconds, operations.seconds))},
          {"step_to_limit", ratios_value(quotients(step.seconds, limit))},
          {"reduce_per_leaf_to_addition",
           ratios_value(quotients(reduce, addition.seconds, 1.0 / what.micro_batches))},
          {"page_faults", step.page_faults},
          {"involuntary_switches", step.switches}};
}

/// The values of a list, or the usual one.
template <class T>
std::vector<T> or_usual(const std::vector<T>& values, T usual) {
  return values.empty() ? std::vector<T>{usual} : values;
}

std::vector<ProductCase> cases_of(const Options& options) {
  std::vector<ProductCase> cases;
  const std::int64_t numel = options.numel.front();
  const auto add = [&](std::int64_t micro_batches, std::int64_t tensors, int stage,
                       DType grad_dtype) {
    cases.push_back(
        {micro_batches, tensors, stage, grad_dtype, numel, options.bucket_numel, options.threads});
  };
  if (options.micro_batches.empty() && options.tensors.empty() && options.stages.empty() &&
      options.grads.empty()) {
    for (const std::int64_t tensors : {1, 69, 10000})
      add(1, std::min(tensors, numel), 0, DType::fp32);
    add(4, 1, 0, DType::fp32);
    for (const int stage : {0, 1, 2, 3})
      add(4, std::min<std::int64_t>(69, numel), stage, DType::fp32);
    for (const std::int64_t tensors : {1, 69}) add(16, std::min(tensors, numel), 0, DType::fp32);
    for (const std::int64_t micro_batches : {1, 16}) add(micro_batches, 1, 0, DType::bf16);
    return cases;
  }
  for (const std::string& grad : or_usual(options.grads, std::string("fp32"))) {
    for (const std::int64_t m : or_usual(options.micro_batches, std::int64_t{1})) {
      for (const std::int64_t t : or_usual(options.tensors, std::int64_t{1})) {
        for (const int stage : or_usual(options.stages, 0))
          add(m, t, stage, grad == "bf16" ? DType::bf16 : DType::fp32);
      }
    }
  }
  return cases;
}

}  // namespace

void measure_product(const Options& options, Report& report) {
  const std::vector<ProductCase> cases = cases_of(options);
  ZP_CHECK(options.save.empty() || cases.size() == 1, ErrorCode::invalid_argument,
           "--save was given with " + std::to_string(cases.size()) + " rows",
           "the file holds one step's inputs and results",
           "choose one, such as --tensors 1 --micro-batches 1");
  for (const ProductCase& what : cases) require_possible(what);  // before the long part
  WorkerTeam team(options.threads);
  Contract contract;
  Json product = Json::array();
  for (const ProductCase& what : cases)
    product.push_back(measure_case(what, options, team, contract, report));
  report.say(
      "steps through make_distributed_optimizer, fused, one rank; " +
      std::to_string(options.numel.front()) +
      " parameters, AdamW, bf16 parameters,\nnorm clipped, finite check; ratios within rounds: "
      "median [least-most]\n");
  report.add("product", std::move(product),
             {{"M", "micro_batches"},
              {"tensors", "tensors"},
              {"stage", "stage"},
              {"grad", "grad_dtype"},
              {"best, ms", "best_s", 1e3},
              {"median", "median_s", 1e3},
              {"/ its kernels", "step_to_implementations"},
              {"/ its bytes", "step_to_limit"},
              {"reduce / addition", "reduce_per_leaf_to_addition"},
              {"faults", "page_faults"}});
}

}  // namespace zeroproof::verification::bench
