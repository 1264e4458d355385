#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "common/base/parallel_for.hpp"
#include "common/base/philox.hpp"
#include "common/base/same_value.hpp"
#include "common/comm/self.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "common/step/muon_names.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"
#include "reference/distributed_optimizer.hpp"
#include "reference/update_operations.hpp"
#include "verification/bench/matrix_rows.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/compare/bounds/newton_schulz_bound.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::int64_t compared_steps = 2;
constexpr std::int64_t bucket_numel = std::int64_t{1} << 18;

/// byte_gpt with two layers of width 192: 987,264 parameters, of which matrices of 192 x 192 and 192 x 768 have most.
Experiment experiment(const std::string& recipe) {
  RunConfig config = workload_defaults("byte_gpt");
  config.model.layers = 2;
  config.model.width = 192;
  config.model.hidden = 4 * 192;
  config.micro_batches = 1;
  return {"byte_gpt", under_recipe(config, recipe), DType::bf16, load_text(config), recipe};
}

/// The gradient of one micro-batch at the first parameters, in every step.
class OneGradient final : public GradSource {
 public:
  explicit OneGradient(const Experiment& experiment) : grad_(experiment.layout().padded_numel()) {
    std::vector<bf16> params(grad_.size());
    cuda::host::cast_to_bf16({}, experiment.initial_state().master, params);
    const std::int64_t numel = experiment.layout().padded_numel();
    experiment.micro_batch_grad(experiment.initial_step() + 1, 0,
                                {params.data(), DType::bf16, numel}, 0, micro_batch_grad(0));
  }

  TensorView micro_batch_grad(std::int64_t) override {
    return {grad_.data(), DType::fp32, static_cast<std::int64_t>(grad_.size())};
  }

 private:
  std::vector<float> grad_;
};

using Values = std::map<BufferId, std::vector<std::byte>>;

/// Steps of one rank, on the production path or the reference.
class MuonStep {
 public:
  MuonStep(const Experiment& experiment, int threads, bool production)
      : experiment_(experiment),
        shards_(experiment.layout().padded_numel(), 1, bucket_numel),
        leaves_(experiment) {
    OptimizerSetup setup = experiment.setup();
    setup.shards = &shards_;
    setup.comm = self_.get();
    setup.exec.num_threads = threads;
    setup.guards = false;
    optimizer_ = production ? cuda::make_distributed_optimizer(setup, Space::host, true)
                            : reference::make_distributed_optimizer(setup);
    optimizer_->load_state(experiment.initial_state());
  }

  void step() { optimizer_->step(leaves_); }

  /// State and parameters, without padding.
  Values values() {
    Values found;
    for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
      for (const ExposedBuffer& buffer : optimizer_->exposed(phase)) {
        if (buffer.view.numel != experiment_.layout().padded_numel()) continue;
        const std::int64_t width = num_bytes(buffer.view.dtype);
        const auto* const data = static_cast<const std::byte*>(buffer.view.data);
        std::vector<std::byte>& bytes = found[buffer.id];
        bytes.clear();
        for (const TensorSlot& tensor : experiment_.layout().tensors())
          bytes.insert(bytes.end(), data + tensor.begin * width,
                       data + (tensor.begin + tensor.numel) * width);
      }
    }
    return found;
  }

  TensorView grad() { return leaves_.micro_batch_grad(0); }

 private:
  const Experiment& experiment_;
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  ShardMap shards_;
  OneGradient leaves_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

bool same(const Values& got, const Values& wanted) {
  for (const auto& [id, bytes] : got) {
    const auto found = wanted.find(id);
    if (found != wanted.end() && found->second != bytes) return false;
  }
  return got.contains(BufferId::master) && wanted.contains(BufferId::master) &&
         got.contains(BufferId::exp_avg) && wanted.contains(BufferId::exp_avg);
}

/// Bell-shaped values; row i is 10^(-fall i / rows) times as large.
std::vector<float> drawn(std::int64_t rows, std::int64_t columns, double fall, std::uint64_t seed) {
  const Philox random(seed);
  std::vector<float> matrix;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const auto factor = static_cast<float>(std::pow(10.0, -fall * (i / columns) / rows));
    matrix.push_back(random.bell(i) * factor);
  }
  return matrix;
}

/// A matrix whose results are compared with exact arithmetic.
struct Distant {
  std::string name;
  std::int64_t rows, columns;
  std::vector<float> matrix;
  std::vector<double> exact;  // of five polynomials, in fp64
};

std::vector<Distant> distant_matrices() {
  std::vector<Distant> all;
  for (const auto& [rows, columns] :
       {std::pair(192, 192), std::pair(192, 768), std::pair(509, 1031)}) {
    for (const int fall : {0, 3}) {
      Distant one{std::to_string(rows) + "x" + std::to_string(columns) +
                      (fall == 0 ? "" : ", rows fall to 0.001"),
                  rows,
                  columns,
                  drawn(rows, columns, fall, 7),
                  {}};
      one.exact = NewtonSchulzBound::of({}, rows, columns, one.matrix, {}).exact();
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// |result - exact| / |exact|, in the Frobenius norm.
double distance(const std::vector<float>& result, const std::vector<double>& exact) {
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    apart += (result[i] - exact[i]) * (result[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(apart / norm);
}

void report_distances(const std::vector<Distant>& matrices, int threads, Report& report) {
  Json table = Json::array();
  for (const Distant& one : matrices) {
    Json line = {{"matrix", one.name}};
    for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
      for (const PolynomialForm form :
           {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
        NewtonSchulzOptions options;
        options.factors = factors;
        options.form = form;
        std::vector<float> result(one.matrix.size());
        cuda::host::newton_schulz({threads}, options, one.rows, one.columns, one.matrix, result);
        line[std::string(name(form)) + "_" + std::string(name(factors))] =
            distance(result, one.exact);
      }
    }
    table.push_back(line);
  }
  report.say(
      "|O - exact| / |exact| in the Frobenius norm; exact: five polynomials of the set simple in "
      "fp64;\n"
      "in 10^-3 with factors bf16, in 10^-6 with fp32; forms fused, scaled_factor, "
      "scaled_product\n");
  report.add("distance", std::move(table),
             {{"matrix", "matrix"},
              {"bf16: fused", "fused_bf16", 1e3},
              {"factor", "scaled_factor_bf16", 1e3},
              {"product", "scaled_product_bf16", 1e3},
              {"fp32: fused", "fused_fp32", 1e6},
              {"factor", "scaled_factor_fp32", 1e6},
              {"product", "scaled_product_fp32", 1e6}});
}

/// Every choice that R28 has, with as many steps as the set has polynomials.
std::vector<NewtonSchulzOptions> every_option() {
  std::vector<NewtonSchulzOptions> all;
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    for (const PolynomialForm form :
         {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
      for (const NormFloor floor : {NormFloor::clamp, NormFloor::add}) {
        const int steps =
            set.polynomials.size() == 1 ? 5 : static_cast<int>(set.polynomials.size());
        all.push_back({set.set, steps, form, MatrixFactors::bf16, floor, 1e-7, false});
        all.push_back({set.set, steps, form, MatrixFactors::bf16, floor, 1e-7, true});
        all.push_back({set.set, steps, form, MatrixFactors::fp32, floor, 1e-7, false});
      }
    }
  }
  return all;
}

/// Compares newton_schulz of the host with the reference on matrices that have `elements` elements together.
std::int64_t differing(const NewtonSchulzOptions& options, std::int64_t elements, int threads) {
  constexpr std::pair<std::int64_t, std::int64_t> shapes[] = {
      {32, 32}, {33, 20}, {15, 64}, {47, 31}, {1, 70}, {16, 48}, {70, 1}, {29, 35}};
  constexpr std::int64_t round_numel = 1024 + 660 + 960 + 1457 + 70 + 768 + 70 + 1015;
  std::vector<Isa> isas = cuda::host::supported_isas();
  isas.push_back(Isa::best);
  std::atomic<std::int64_t> different = 0;
  parallel_for(threads, (elements + round_numel - 1) / round_numel, [&](std::int64_t round) {
    for (std::size_t i = 0; i < std::size(shapes); ++i) {
      const auto [rows, columns] = shapes[i];
      const std::uint64_t seed = round * std::size(shapes) + i;
      const std::vector<float> matrix = drawn(rows, columns, static_cast<double>(round % 4), seed);
      std::vector<float> got(matrix.size()), wanted(matrix.size());
      reference::newton_schulz({}, options, rows, columns, matrix, wanted);
      cuda::host::newton_schulz({1, isas[seed % isas.size()]}, options, rows, columns, matrix, got);
      for (std::size_t k = 0; k < got.size(); ++k)
        different += same_value(got[k], wanted[k]) ? 0 : 1;
    }
  });
  return different;
}

void compare_every_option(std::int64_t elements, int threads, Report& report) {
  Json table = Json::array();
  for (const NewtonSchulzOptions& options : every_option()) {
    const std::int64_t different = differing(options, elements, threads);
    const std::string option =
        std::string(name(options.coefficients)) + " " + std::string(name(options.form)) + " " +
        std::string(name(options.factors)) + " " + std::string(name(options.floor)) +
        (options.rounds_first ? " rounds_first" : "");
    table.push_back({{"option", option}, {"elements", elements}, {"differing", different}});
    report.check("newton_schulz: host = reference", different == 0, option);
  }
  report.add(
      "options", std::move(table),
      {{"option", "option"}, {"elements, at least", "elements"}, {"differing", "differing"}});
}

/// Inputs and results of compared_steps steps for another program, in tensors one after another: leaf.0,
/// first.master, first.exp_avg, first.exp_avg_sq, master and param as `product` writes them, and for each tensor its
/// place and, in tensor_rows, the rows of a matrix of the rule muon, or 0. master.fp32: with factors fp32. distant.0 and exact.0 and so on: matrices and
/// exact results of Newton-Schulz.
void save_case(const std::string& file, const Experiment& experiment, const TensorView& grad,
               const Values& results, const Values& wide, const std::vector<Distant>& distant) {
  const std::vector<TensorSlot>& tensors = experiment.layout().tensors();
  const FullState first = experiment.initial_state();
  const std::vector<MatrixTensor> matrices = experiment.setup().matrix_tensors;
  std::int64_t numel = 0;
  std::vector<std::int64_t> begins, numels, rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    begins.push_back(numel);
    numels.push_back(tensors[i].numel);
    rows.push_back(matrices[i].is_matrix ? tensors[i].shape.front() : 0);
    numel += tensors[i].numel;
  }
  std::vector<SafeTensorSpec> specs;
  for (const char* name :
       {"leaf.0", "first.master", "first.exp_avg", "first.exp_avg_sq", "master", "master.fp32"})
    specs.push_back({name, SafeDType::f32, {numel}});
  specs.push_back({"param", SafeDType::bf16, {numel}});
  for (const char* name : {"tensor_begin", "tensor_numel", "tensor_rows"})
    specs.push_back({name, SafeDType::i64, {static_cast<std::int64_t>(tensors.size())}});
  for (std::size_t i = 0; i < distant.size(); ++i) {
    for (const auto& [name, dtype] :
         {std::pair("distant.", SafeDType::f32), std::pair("exact.", SafeDType::f64)})
      specs.push_back({name + std::to_string(i), dtype, {distant[i].rows, distant[i].columns}});
  }
  const OptimizerHyper& hyper = experiment.config().optimizer;
  SafetensorsWriter writer(file, specs,
                           {{"steps", std::to_string(compared_steps)},
                            {"steps_before", std::to_string(first.applied_steps)},
                            {"log2_loss_scale", "0"},
                            {"lr", std::to_string(hyper.lr)},
                            {"beta1", std::to_string(hyper.beta1)},
                            {"beta2", std::to_string(hyper.beta2)},
                            {"weight_decay", std::to_string(hyper.weight_decay)},
                            {"momentum", std::to_string(hyper.momentum)}});
  const auto write = [&](const char* name, const float* data) {
    for (const TensorSlot& tensor : tensors)
      writer.write(name, std::as_bytes(Span<const float>(data + tensor.begin, tensor.numel)));
  };
  write("leaf.0", static_cast<const float*>(grad.data));
  write("first.master", first.master.data());
  write("first.exp_avg", first.slots[StateSlot::exp_avg].data());
  write("first.exp_avg_sq", first.slots[StateSlot::exp_avg_sq].data());
  writer.write("master", results.at(BufferId::master));
  writer.write("master.fp32", wide.at(BufferId::master));
  writer.write("param", results.contains(BufferId::param_full) ? results.at(BufferId::param_full)
                                                               : results.at(BufferId::param_shard));
  for (const auto& [name, values] :
       {std::pair("tensor_begin", &begins), std::pair("tensor_numel", &numels),
        std::pair("tensor_rows", &rows)})
    writer.write(name, std::as_bytes(Span<const std::int64_t>(*values)));
  for (std::size_t i = 0; i < distant.size(); ++i) {
    writer.write("distant." + std::to_string(i),
                 std::as_bytes(Span<const float>(distant[i].matrix)));
    writer.write("exact." + std::to_string(i), std::as_bytes(Span<const double>(distant[i].exact)));
  }
  writer.finish();
}

}  // namespace

void measure_muon(const Options& options, Report& report) {
  if (!options.numel.empty())
    return compare_every_option(options.numel.front(), options.threads, report);
  const std::vector<Distant> distant = distant_matrices();
  Group group{"steps of byte_gpt, 2 layers of width 192, one rank", {}};
  std::vector<std::unique_ptr<Experiment>> experiments;
  std::vector<std::unique_ptr<MuonStep>> steps;
  std::vector<Values> results;
  for (const char* recipe : {"muon", "muon+factors:fp32"}) {
    const Experiment& one =
        *experiments.emplace_back(std::make_unique<Experiment>(experiment(recipe)));
    MuonStep& step = *steps.emplace_back(std::make_unique<MuonStep>(one, options.threads, true));
    MuonStep wanted(one, options.threads, false);
    for (std::int64_t i = 0; i < compared_steps; ++i) {
      step.step();
      wanted.step();
    }
    results.push_back(step.values());
    report.check("production = reference after two steps: master, state, parameters",
                 same(results.back(), wanted.values()), recipe);
    group.rows.push_back({std::string("step, factors ") + (steps.size() == 1 ? "bf16" : "fp32"), 0,
                          one.layout().padded_numel(), timed([&step] { step.step(); })});
  }
  if (!options.save.empty())
    save_case(options.save, *experiments[0], steps[0]->grad(), results[0], results[1], distant);
  measure(group.rows, options.rounds);
  report.add(group, true);
  report_distances(distant, options.threads, report);
  WorkerTeam team(options.threads);
  measure_matrices(options, 1024, team, report);
}

}  // namespace zeroproof::verification::bench
