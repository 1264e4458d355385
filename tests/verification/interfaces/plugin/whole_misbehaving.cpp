// The whole step of the example, with misbehaviour around it: that of the function which the environment
// variable ZP_KERNEL names at load.

#define zeroproof_get_plugin of_the_example
#include "verification/examples/plugin_cpp/whole_step.cpp"  // NOLINT(bugprone-suspicious-include): as it is
#undef zeroproof_get_plugin

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

int calls = 0;

int64_t padded(const zeroproof_call* call) {
  return zeroproof_find_operand(call, "param")->tensor.shape[0];
}
bool is_skipped(const zeroproof_call* call) { return *data<uint32_t>(call, "found_inf") != 0; }
int64_t end_of_first(const zeroproof_call* call) {
  const auto* tensors = data<uint64_t>(call, "tensors");
  return static_cast<int64_t>(tensors[0] + tensors[1]);
}

int32_t dies(const zeroproof_call* call) {
  if (++calls == 2) std::abort();
  return step(call);
}

int32_t loops(const zeroproof_call* call) {
  for (volatile bool on = ++calls == 2; on;) {
  }
  return step(call);
}

int32_t says_no(const zeroproof_call* call) {
  std::snprintf(call->message, call->message_size, "out of luck");
  return 9;
}

int32_t does_nothing(const zeroproof_call*) { return 0; }

int32_t edits_leaf(const zeroproof_call* call) {
  step(call);
  data<float>(call, "leaf_grad")[0] = 1;
  return 0;
}

int32_t writes_behind(const zeroproof_call* call) {
  step(call);
  data<float>(call, "exp_avg")[padded(call)] = 1;
  return 0;
}

int32_t writes_late(const zeroproof_call* call) {
  step(call);
  std::thread([place = data<float>(call, "master")] {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5));  // the results have been read by then
    for (int i = 0; i < 10000; ++i) {
      *static_cast<volatile float*>(place) = static_cast<float>(i);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }).detach();
  return 0;
}

int32_t errs_once(const zeroproof_call* call) {
  step(call);
  if (++calls == 1) data<float>(call, "exp_avg_sq")[3] *= 2;
  return 0;
}

int32_t fills_padding(const zeroproof_call* call) {
  step(call);
  const int64_t end = end_of_first(call);
  if (end % 1024 != 0) data<float>(call, "exp_avg_sq")[end] = 0;
  return 0;
}

int32_t moves_anyway(const zeroproof_call* call) {
  step(call);
  if (is_skipped(call)) data<float>(call, "exp_avg")[3] += 1;
  return 0;
}

int32_t counts_anyway(const zeroproof_call* call) {
  step(call);
  if (is_skipped(call)) *data<uint64_t>(call, "applied_steps") += 1;
  return 0;
}

int32_t norm_anyway(const zeroproof_call* call) {
  step(call);
  if (is_skipped(call)) *data<double>(call, "grad_norm") = 1;
  return 0;
}

int32_t says_nothing_of_infinity(const zeroproof_call* call) {
  step(call);
  std::memset(data<uint32_t>(call, "found_inf"), 0xFF, 4);
  return 0;
}

int32_t parameters_of_before(const zeroproof_call* call) {
  auto* const param = data<uint16_t>(call, "param");
  const std::vector<uint16_t> before(param, param + padded(call));
  step(call);
  std::memcpy(param, before.data(), before.size() * sizeof(uint16_t));
  return 0;
}

/// Answers by the number of the call: all results of a run that it has computed are in a file.
int32_t knows_by_heart(const zeroproof_call* call) {
  const char* const path = std::getenv("ZP_HEART");
  static const bool learns = std::fopen(path, "rb") == nullptr;
  static std::FILE* const file = std::fopen(path, learns ? "wb" : "rb");
  if (learns) step(call);
  for (int32_t k = 0; k < call->num_operands; ++k) {
    const zeroproof_operand& operand = call->operands[k];
    if (operand.access == ZEROPROOF_IN) continue;
    const std::size_t size = zeroproof_numel(&operand) * operand.tensor.dtype.bits / 8;
    const std::size_t moved = learns ? std::fwrite(operand.tensor.data, 1, size, file)
                                     : std::fread(operand.tensor.data, 1, size, file);
    if (moved != size) return 1;
  }
  std::fflush(file);
  return 0;
}

/// Every row, or column, of a matrix belongs to one part, and every iteration has a polynomial.
bool describes_matrices(const zeroproof_call* call) {
  const auto* part = data<uint64_t>(call, "matrix_parts");
  const int64_t parts = zeroproof_find_operand(call, "matrix_parts")->tensor.shape[0];
  const int64_t* steps = zeroproof_find_operand(call, "polynomials")->tensor.shape;
  uint64_t end = 0;
  for (int64_t p = 0; p < parts; ++p, part += 7) {
    const uint64_t extent = part[3] == 1 ? part[2] : part[1];
    const bool covers = part[5] == end && part[6] > 0 && part[5] + part[6] <= part[4];
    if (part[1] * part[2] != data<uint64_t>(call, "tensors")[4 * part[0] + 1] || part[3] > 1 ||
        extent % part[4] != 0 || !covers)
      return false;
    end = (part[5] + part[6]) % part[4];
  }
  return parts > 0 && end == 0 && steps[0] == zeroproof_integer(call, "muon.steps", -1) &&
         steps[1] == 3;
}

/// Fails unless every operand and the settings are as documented. A step of muon fails then too: it
/// is not computed.
int32_t reads_the_documentation(const zeroproof_call* call) {
  struct Row {
    const char* name;
    int access, ndim, bits;
  };
  constexpr Row rows[] = {{"leaf_grad", ZEROPROOF_IN, 2, 32},
                          {"leaf_rank", ZEROPROOF_IN, 1, 32},
                          {"tensors", ZEROPROOF_IN, 2, 64},
                          {"shards", ZEROPROOF_IN, 2, 64},
                          {"has_grad", ZEROPROOF_IN, 1, 32},
                          {"step_scalars", ZEROPROOF_IN, 2, 32},
                          {"group_rates", ZEROPROOF_IN, 2, 64},
                          {"max_norm", ZEROPROOF_IN, 1, 64},
                          {"grad_sum", ZEROPROOF_OUT, 1, 32},
                          {"found_inf", ZEROPROOF_OUT, 1, 32},
                          {"loss_scaler", ZEROPROOF_IN_OUT, 1, 32},
                          {"grad_norm", ZEROPROOF_OUT, 1, 64},
                          {"clip_coef", ZEROPROOF_OUT, 1, 32},
                          {"exp_avg", ZEROPROOF_IN_OUT, 1, 32},
                          {"exp_avg_sq", ZEROPROOF_IN_OUT, 1, 32},
                          {"max_exp_avg_sq", ZEROPROOF_IN_OUT, 1, 32},
                          {"momentum_buffer", ZEROPROOF_IN_OUT, 1, 32},
                          {"master", ZEROPROOF_IN_OUT, 1, 32},
                          {"tensor_steps", ZEROPROOF_IN_OUT, 1, 64},
                          {"applied_steps", ZEROPROOF_IN_OUT, 1, 64},
                          {"param", ZEROPROOF_IN_OUT, 1, 16},
                          {"matrix_parts", ZEROPROOF_IN, 2, 64},
                          {"polynomials", ZEROPROOF_IN, 2, 32}};
  const bool of_muon = zeroproof_integer(call, "rule", -1) == 6;
  const std::size_t num_rows = std::size(rows) - (of_muon ? 0 : 2);
  const auto complain = [&](const char* what) {
    std::snprintf(call->message, call->message_size, "wrong: %s", what);
    return 1;
  };
  if (call->num_operands != static_cast<int32_t>(num_rows))
    return complain("the number of operands");
  for (std::size_t k = 0; k < num_rows; ++k) {
    const zeroproof_operand& given = call->operands[k];
    const bool same = std::strcmp(given.name, rows[k].name) == 0 &&
                      given.access == rows[k].access && given.tensor.ndim == rows[k].ndim &&
                      given.tensor.dtype.bits == rows[k].bits;
    if (!same) return complain(rows[k].name);
  }
  for (const char* name : {"grad_sum", "found_inf", "grad_norm", "clip_coef"}) {
    if (data<uint32_t>(call, name)[0] != 0xFFFFFFFF) return complain(name);
  }
  for (const char* name : {"max_exp_avg_sq", "momentum_buffer", "tensor_steps"}) {
    if (zeroproof_numel(zeroproof_find_operand(call, name)) != 0) return complain(name);
  }
  const int64_t micro_batches = zeroproof_integer(call, "micro_batches", -1);
  const auto* const leaf = zeroproof_find_operand(call, "leaf_grad")->tensor.shape;
  if (leaf[0] != micro_batches || leaf[1] != padded(call))
    return complain("the shape of leaf_grad");
  // Every element has one owner, every micro-batch a rank.
  const int64_t ranks = zeroproof_integer(call, "world_size", -1);
  const int64_t shards = zeroproof_find_operand(call, "shards")->tensor.shape[0];
  std::vector<int> owners(padded(call));
  for (int64_t s = 0; s < shards; ++s) {
    const uint64_t* row = data<uint64_t>(call, "shards") + 3 * s;
    if (row[0] >= static_cast<uint64_t>(ranks)) return complain("a rank");
    for (uint64_t i = row[1]; i < row[1] + row[2]; ++i) ++owners[i];
  }
  for (const int owner : owners) {
    if (owner != 1) return complain("an owner");
  }
  for (int64_t j = 0; j < micro_batches; ++j) {
    if (data<uint32_t>(call, "leaf_rank")[j] >= static_cast<uint32_t>(ranks))
      return complain("leaf_rank");
  }
  if (zeroproof_integer(call, "t", 0) !=
      static_cast<int64_t>(*data<uint64_t>(call, "applied_steps")) + 1)
    return complain("t");
  for (const char* name :
       {"lr", "beta1", "beta2", "eps", "weight_decay", "scalar.step_size", "scalar.inv_scale"}) {
    if (zeroproof_find_setting(call, name) == nullptr) return complain(name);
  }
  for (const char* name :
       {"muon.heavy_ball", "muon.scale", "muon.scale_factor", "muon.coefficients", "muon.steps",
        "muon.form", "muon.factors", "muon.floor", "muon.eps", "muon.rounds_first"}) {
    if ((zeroproof_find_setting(call, name) != nullptr) != of_muon) return complain(name);
  }
  if (!of_muon) return step(call);
  if (!describes_matrices(call)) return complain("matrix_parts or polynomials");
  std::snprintf(call->message, call->message_size, "matrices as documented");
  return 1;
}

struct Misbehaviour {
  const char* name;
  zeroproof_function step;
};
constexpr Misbehaviour all[] = {{"does_nothing", does_nothing},
                                {"errs_once", errs_once},
                                {"dies", dies},
                                {"loops", loops},
                                {"edits_leaf", edits_leaf},
                                {"writes_behind", writes_behind},
                                {"writes_late", writes_late},
                                {"says_no", says_no},
                                {"fills_padding", fills_padding},
                                {"moves_anyway", moves_anyway},
                                {"counts_anyway", counts_anyway},
                                {"norm_anyway", norm_anyway},
                                {"says_nothing_of_infinity", says_nothing_of_infinity},
                                {"parameters_of_before", parameters_of_before},
                                {"knows_by_heart", knows_by_heart},
                                {"reads_the_documentation", reads_the_documentation}};

constexpr zeroproof_operation operations[] = {{"clip_value", does_nothing}};

zeroproof_plugin misbehaving() {
  zeroproof_plugin plugin = {
      ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "odd", operations, 1, supports, nullptr};
  const char* kind = std::getenv("ZP_KERNEL");
  for (const Misbehaviour& row : all) {
    if (kind != nullptr && std::strcmp(row.name, kind) == 0) plugin.step = row.step;
  }
  if (plugin.step == reads_the_documentation)
    plugin.supports = nullptr;  // it reads muon's calls too
  // Built before the step field existed: what the memory after it holds is not part of the struct.
  if (plugin.step == nullptr) {
    plugin.struct_size = offsetof(zeroproof_plugin, step);
    plugin.step = does_nothing;
  }
  return plugin;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const zeroproof_plugin* zeroproof_get_plugin(
    void);
const zeroproof_plugin* zeroproof_get_plugin(void) {
  static const zeroproof_plugin plugin = misbehaving();
  return &plugin;
}
