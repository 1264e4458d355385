// Kernels of a library with device tensors: clip_value, which is correct, and as clip the function that the
// environment variable ZP_KERNEL names at load.

#include <zeroproof_kernel.h>

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace {

__global__ void clip_kernel(const float* from, float* to, int64_t numel, float coef) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < numel) to[i] = from[i] * coef;
}

__global__ void clip_value_kernel(float* grad, int64_t numel, float limit) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < numel) grad[i] = grad[i] > limit ? limit : (grad[i] < -limit ? -limit : grad[i]);
}

__global__ void write_kernel(float* place, float value) {
  if (threadIdx.x == 0) *place = value;
}

__global__ void barrier_kernel() {
  if (threadIdx.x < 7) __syncthreads();
}

__global__ void endless_kernel() {
  for (volatile bool on = true; on;) {
  }
}

constexpr int32_t block = 64;

float* data(const zeroproof_call* call, int k) {
  return static_cast<float*>(call->operands[k].tensor.data);
}
int64_t numel(const zeroproof_call* call) { return zeroproof_numel(&call->operands[0]); }
int32_t blocks(const zeroproof_call* call) {
  return static_cast<int32_t>((numel(call) + block - 1) / block);
}

int32_t honest(const zeroproof_call* call) {
  if (numel(call) == 0) return 0;
  const float coef = zeroproof_real(call, "clip_coef", 0);
  return zeroproof_launch(clip_kernel, blocks(call), block, call->stream, data(call, 0),
                          data(call, 1), numel(call), coef);
}

int32_t clip_value(const zeroproof_call* call) {
  if (numel(call) == 0) return 0;
  const float limit = zeroproof_real(call, "clip_value", 0);
  return zeroproof_launch(clip_value_kernel, blocks(call), block, call->stream, data(call, 0),
                          numel(call), limit);
}

/// A write by the device after its computation.
int32_t and_write(const zeroproof_call* call, float* place) {
  const int32_t status = honest(call);
  return status != 0 ? status : zeroproof_launch(write_kernel, 1, block, call->stream, place, 1.0F);
}

int32_t touches_memory(const zeroproof_call* call) {
  if (numel(call) > 0) *static_cast<volatile float*>(data(call, 1)) = 1;
  return honest(call);
}

int32_t writes_behind(const zeroproof_call* call) {
  return and_write(call, data(call, 1) + numel(call));
}

int32_t writes_far(const zeroproof_call* call) {
  return and_write(call, data(call, 1) + (int64_t{1} << 30));
}

int32_t edits_input(const zeroproof_call* call) {
  if (numel(call) == 0 || zeroproof_integer(call, "in_place", 0) != 0) return honest(call);
  return and_write(call, data(call, 0));
}

int32_t splits_block(const zeroproof_call* call) {
  return zeroproof_launch(barrier_kernel, 1, block, call->stream);
}

int32_t half_a_warp(const zeroproof_call* call) {
  return zeroproof_launch(barrier_kernel, 1, 16, call->stream);
}

int32_t never_ends(const zeroproof_call* call) {
  return zeroproof_launch(endless_kernel, 1, block, call->stream);
}

int32_t launches_nothing(const zeroproof_call*) { return 0; }

bool is_there(const zeroproof_call* call, bool with_memory) {
  for (int32_t k = 0; k < call->num_operands; ++k) {
    const zeroproof_tensor& tensor = call->operands[k].tensor;
    if (tensor.device_type != ZEROPROOF_DEVICE || (tensor.data != nullptr) != with_memory)
      return false;
  }
  return (call->stream != nullptr) == with_memory;
}

/// Checks that tensors and stream are as documented, before a call and in it.
int32_t is_asked = 0;
int32_t looks(const zeroproof_call* call) {
  return is_asked == 1 && is_there(call, true) ? honest(call) : 7;
}
int32_t supports(const zeroproof_call* call) {
  is_asked = is_there(call, false) ? 1 : 2;
  return 1;
}

/// A whole step whose operands and tables are on the device, and which writes only found_inf.
int32_t half_a_step(const zeroproof_call* call) {
  if (!is_there(call, true)) return 7;
  auto* const found_inf =
      static_cast<float*>(zeroproof_find_operand(call, "found_inf")->tensor.data);
  return zeroproof_launch(write_kernel, 1, block, call->stream, found_inf, 0.0F);
}

struct Misbehaviour {
  const char* name;
  zeroproof_function clip;
};
const Misbehaviour all[] = {{"honest", honest},
                            {"touches_memory", touches_memory},
                            {"writes_behind", writes_behind},
                            {"writes_far", writes_far},
                            {"edits_input", edits_input},
                            {"splits_block", splits_block},
                            {"half_a_warp", half_a_warp},
                            {"never_ends", never_ends},
                            {"launches_nothing", launches_nothing},
                            {"looks", looks}};

/// "for_a_gpu" and "for_what" are honest and ask for other devices; "old" was built before the device fields
/// existed: the memory after them is not part of the struct.
zeroproof_plugin misbehaving() {
  static zeroproof_operation operations[] = {{"clip", honest}, {"clip_value", clip_value}};
  zeroproof_plugin plugin = {
      ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "odd", operations, 2, supports,
      half_a_step,          ZEROPROOF_DEVICE,         0};
  const char* given = std::getenv("ZP_KERNEL");
  const std::string_view kind = given == nullptr ? "" : given;
  for (const Misbehaviour& row : all) {
    if (row.name == kind) operations[0].run = row.clip;
  }
  if (kind == "for_a_gpu") plugin.device_type = ZEROPROOF_CUDA;
  if (kind == "for_what") plugin.device_type = 7;
  if (kind == "old") {
    operations[0].run = launches_nothing;
    plugin.struct_size = offsetof(zeroproof_plugin, device_type);
  }
  return plugin;
}

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) {
  static const zeroproof_plugin plugin = misbehaving();
  return &plugin;
}
