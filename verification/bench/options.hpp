#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::verification::bench {

/// Options of all subcommands; each reads those that it has flags for (main.cpp).
struct Options {
  std::string command;
  int rounds = 7;
  std::vector<std::int64_t> numel =
      {};                ///< elements or parameters; of device, one group of rows each
  std::int64_t mib = 0;  ///< the same in MiB; 0: numel is used
  int threads = 0;
  std::string json = {};  ///< file for the record, "" for none

  // product: each with each; the usual rows if the first four are empty.
  std::vector<std::int64_t> micro_batches = {}, tensors = {};
  std::vector<int> stages = {};
  std::vector<std::string> grads = {};  ///< fp32, bf16
  std::int64_t bucket_numel = std::int64_t{1} << 18;
  std::string save = {};    ///< file for inputs and results of the selected row, "" for none
  std::string folder = {};  ///< of checkpoint and offload

  // checkpoint, ranks, device: one table or job each.
  std::vector<int> ranks = {};
  std::vector<std::string> malloc = {};  ///< ranks: installed, warm

  // device
  std::int64_t small_numel = std::int64_t{1}
                             << 20;  ///< of the step whose time on the host is measured
  std::int64_t rank_numel = std::int64_t{1} << 26;  ///< of a model that ranks share
  std::vector<std::string> rows = {};               ///< kernels, steps, small, ranks
};

}  // namespace zeroproof::verification::bench
