#include "verification/tools/quantize/calibration/quantize_job.hpp"

#include <atomic>
#include <bit>

#include "common/base/error.hpp"
#include "common/step/portable_math64.hpp"
#include "cuda/host/operations.hpp"
#include "verification/model/byte_gpt_pass.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {
namespace {

/// Replaces the inputs of layers by quantized ones.
class InputQuantizer final : public workload::LinearObserver<float> {
 public:
  explicit InputQuantizer(const std::map<int, const QuantizedTensor*>& layers) : layers_(layers) {}

  workload::Matrix<const float> input(int weight, workload::Matrix<const float> x) override {
    const auto found = layers_.find(weight);
    if (found == layers_.end()) return x;
    const QuantizedTensor& layer = *found->second;
    const std::int64_t numel = x.rows * x.columns;
    values_.assign(x.data, x.data + numel);
    if (!layer.smooth.empty()) {
      for (std::int64_t i = 0; i < numel; ++i) {
        float& value = values_[i];
        value = value * layer.smooth[i % x.columns];
      }
    }
    const std::uint32_t amax = *layer.input_amax;
    cuda::host::fake_quantize({}, fake_quantization_of(layer.payload, one_block(x.rows, x.columns)),
                              0, values_, {&amax, 1}, values_);
    return {values_.data(), x.rows, x.columns};
  }

 private:
  const std::map<int, const QuantizedTensor*>& layers_;
  std::vector<float> values_;
};

class Runner {
 public:
  explicit Runner(const QuantizeJob& job)
      : job_(job),
        world_(make_local_world(job.world, job.timeout_s)),
        set_(workload::best_instruction_set()) {}

  std::int64_t windows(const workload::Text& text) const {
    return std::min(job_.samples, windows_of(text, job_.model.shape.context));
  }

  /// Runs every window through the model, window i on rank i mod the number of ranks; then `end` on
  /// every rank. tap_of: of a rank; nullptr for none. Returns the losses in the order of the
  /// windows.
  template <class ObserverOf, class End>
  std::vector<double> run(const workload::Text& text, Span<const float> params,
                          const std::string& what, const ObserverOf& tap_of, const End& end) {
    const std::int64_t count = windows(text);
    std::vector<double> losses(count);
    std::atomic<std::int64_t> done = 0;
    const workload::Tensors<const float> tensors(job_.model.layout, params);
    world_->run([&](int rank, const RankComparison::Communicators& comms) {
      for (std::int64_t i = rank; i < count; i += world_->size()) {
        const auto context = static_cast<std::size_t>(job_.model.shape.context);
        const Span<const std::uint8_t> tokens =
            Span<const std::uint8_t>(text.bytes)
                .subspan(static_cast<std::size_t>(i) * context, context + 1);
        workload::BytePass<float> pass(job_.model.shape, workload::ByteGptPlace{}, tokens, set_);
        pass.set_tap(tap_of(rank));
        pass.run_forward(tensors);
        losses[i] = pass.loss();
        const std::int64_t so_far = ++done;
        if (job_.progress)
          job_.progress(static_cast<double>(so_far) / static_cast<double>(count), what);
      }
      end(rank, *comms.harness);
    });
    return losses;
  }

  std::vector<double> losses_of(const workload::Text& text, Span<const float> params,
                                const std::string& what) {
    return run(
        text, params, what,
        [](int) { return static_cast<workload::LinearObserver<float>*>(nullptr); },
        [](int, Communicator&) {});
  }

  int size() const { return world_->size(); }

 private:
  const QuantizeJob& job_;
  std::unique_ptr<World> world_;
  workload::InstructionSet set_;
};

Perplexity perplexity_of(const std::vector<double>& losses) {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  Perplexity found{std::ssize(losses), sum / static_cast<double>(losses.size()), 0};
  found.value = portable_math64::exp(found.loss);
  return found;
}

/// The payloads that are on, checked against their tensors before anything runs.
std::map<std::size_t, QuantPayload> payloads_of(const QuantizeJob& job) {
  std::map<std::size_t, QuantPayload> found;
  const std::vector<TensorSlot>& slots = job.model.layout.tensors();
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const TensorQuantization& tensor = job.assignment.tensors[t];
    // Megatron-LM's rules name modules, so a bias has its weight's payload; vectors are not
    // quantized there either.
    if (!tensor.on || !tensor.payload || slots[t].shape.size() < 2) continue;
    check_payload(slots[t], *tensor.payload, has_inputs(slots[t].name));
    found.emplace(t, *tensor.payload);
  }
  ZP_CHECK(!found.empty(), ErrorCode::config, "no rule turns a matrix of " + job.model.path + " on",
           "the file would be written as it is",
           "zeroproof quantization shows the effect of the rules");
  return found;
}

LayerInputs empty_inputs(const QuantizeJob& job,
                         const std::map<std::size_t, QuantPayload>& payloads) {
  LayerInputs inputs;
  for (const auto& [t, payload] : payloads) {
    const TensorSlot& slot = job.model.layout.tensors()[t];
    if (payload.has_scale() && has_inputs(slot.name))
      inputs.try_emplace(static_cast<int>(t), payload, job.growth, slot.shape[0]);
  }
  return inputs;
}

template <class Observer>
std::vector<Observer> observers_of(std::vector<LayerInputs>& of_ranks) {
  std::vector<Observer> observers;
  for (LayerInputs& inputs : of_ranks) observers.emplace_back(inputs);
  return observers;
}

}  // namespace

std::int64_t windows_of(const workload::Text& text, std::int64_t context) {
  return (static_cast<std::int64_t>(text.bytes.size()) - 1) / context;
}

QuantizeResult run_quantize_job(const QuantizeJob& job) {
  ZP_CHECK(!job.world.has_processes(), ErrorCode::config,
           "world " + job.world.id() + " has processes", "a calibration has its ranks in one",
           "use self or threads:N");
  ZP_CHECK(job.growth == HistogramGrowth::doubling || job.world.size == 1, ErrorCode::config,
           "appended bins were requested on " + std::to_string(job.world.size) + " ranks",
           "their width depends on which window comes first, so they cannot be merged",
           "use --histogram doubling, or --world self");
  const std::map<std::size_t, QuantPayload> payloads = payloads_of(job);
  Runner runner(job);
  QuantizeResult result;
  result.samples = runner.windows(job.calibration);
  const Span<const float> params = job.model.params;

  std::vector<LayerInputs> of_ranks(runner.size(), empty_inputs(job, payloads));
  std::vector<InputObserver> observers = observers_of<InputObserver>(of_ranks);
  const std::vector<double> seen = runner.run(
      job.calibration, params, "calibrating", [&](int rank) { return &observers[rank]; },
      [&](int rank, Communicator& ranks) {
        for (auto& [weight, input] : of_ranks[rank]) input.merge(ranks);
      });
  const bool sweeps = std::ranges::any_of(
      of_ranks[0], [](const auto& layer) { return !layer.second.errors.empty(); });
  if (sweeps) {
    std::vector<ErrorObserver> errors = observers_of<ErrorObserver>(of_ranks);
    runner.run(
        job.calibration, params, "errors of clips", [&](int rank) { return &errors[rank]; },
        [&](int rank, Communicator& ranks) { merge_errors(of_ranks[rank], ranks); });
  }

  std::vector<float> quantized(params.begin(), params.end());
  for (const auto& [t, payload] : payloads) {
    const auto input = of_ranks[0].find(static_cast<int>(t));
    result.tensors.push_back(
        quantize_tensor({}, job.model, t, payload, job.growth,
                        input == of_ranks[0].end() ? nullptr : &input->second));
    const TensorSlot& slot = job.model.layout.tensors()[t];
    std::ranges::copy(result.tensors.back().values, quantized.begin() + slot.begin);
    if (job.progress)
      job.progress(
          static_cast<double>(result.tensors.size()) / static_cast<double>(payloads.size()),
          "quantizing " + slot.name);
  }

  const bool same = job.evaluation.bytes.empty();
  const workload::Text& judged = same ? job.calibration : job.evaluation;
  result.before =
      perplexity_of(same ? seen : runner.losses_of(judged, params, "perplexity before"));
  std::map<int, const QuantizedTensor*> layers;
  for (const QuantizedTensor& tensor : result.tensors) {
    if (tensor.input_amax) layers.emplace(static_cast<int>(tensor.tensor), &tensor);
  }
  std::vector<InputQuantizer> quantizers(runner.size(), InputQuantizer(layers));
  result.after = perplexity_of(runner.run(
      judged, quantized, "perplexity after", [&](int rank) { return &quantizers[rank]; },
      [](int, Communicator&) {}));
  return result;
}

}  // namespace zeroproof::verification
