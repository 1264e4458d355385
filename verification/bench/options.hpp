#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

struct Options {
  int rounds = 0;            ///< 0: the usual number, which is another one for each part
  std::int64_t mib = 512;    ///< fp32 gradient, master and two moments together: 16 bytes per element
  int threads = 0;           ///< 0: as many as there are cores
  std::string json;          ///< file for the record, "" for none
  std::string rows = "all";  ///< all, kernels or product
  std::int64_t numel_asked =
      0;               ///< elements of all rows; 0: what mib says, and the usual parameters of the product
  bool sweep = false;  ///< the product over its axes, and no rows
  std::string checkpoint;  ///< a folder to save checkpoints in, and no rows; "" for none
  std::vector<int> ranks;  ///< that save
  std::string offload;     ///< a folder for state that lies in a file, and no rows; "" for none

  // The product's rows: the usual ones if none of these is given, otherwise each with each.
  std::vector<std::int64_t> micro_batches, tensors;
  std::vector<int> stages;
  std::vector<std::string> grads;  ///< fp32, bf16
  std::int64_t bucket_numel = std::int64_t{1} << 18;
  std::string save;  ///< file for inputs and results of the one product row there is, "" for none

  /// Something else than rows is measured.
  bool alone() const { return sweep || !checkpoint.empty() || !offload.empty(); }
  bool kernels() const { return !alone() && rows != "product"; }
  bool product() const { return !alone() && rows != "kernels"; }
  std::int64_t numel() const { return numel_asked > 0 ? numel_asked : mib * (std::int64_t{1} << 20) / 16; }
  std::int64_t product_numel() const { return numel_asked > 0 ? numel_asked : std::int64_t{1} << 24; }
  int kernel_rounds() const { return rounds > 0 ? rounds : 15; }
  int product_rounds() const { return rounds > 0 ? rounds : 7; }
  int sweep_passes() const { return rounds > 0 ? rounds : 3; }
  std::vector<ProductCase> product_cases() const;
  /// 384 MiB of state if nothing else was asked for.
  std::vector<ProductCase> save_cases() const;
  /// One rank, one micro-batch.
  ProductCase offload_case() const;
};

/// Errors: invalid_argument for flags that do not go together. Nothing if the program should end now, with `exit_code`.
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace zeroproof::verification::bench
