#include "verification/bench/product/save.hpp"

#include <algorithm>

#include "common/io/safetensors/safetensors_writer.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

Span<const std::byte> bytes_of(const TensorView& view) {
  return {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())};
}

void write_filled(SafetensorsWriter& writer, const std::string& name, std::int64_t numel,
                  void (*fill)(std::int64_t, Span<float>)) {
  constexpr std::int64_t block = 65536;
  std::vector<float> values;
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    values.resize(static_cast<std::size_t>(std::min(block, numel - begin)));
    fill(begin, values);
    writer.write(name, std::as_bytes(Span<const float>(values)));
  }
}

}  // namespace

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
  for (std::int64_t j = 0; j < what.num_leaves(); ++j)
    writer.write("leaf." + std::to_string(j), bytes_of(leaves.view(j)));
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

}  // namespace zeroproof::verification::bench
