#pragma once
// What is stepped in a product row.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/offload.hpp"

namespace zeroproof::verification::bench {

/// AdamW, a norm of 1 that clips, chunk1024, finite check, bf16 parameters.
struct ProductCase {
  std::int64_t micro_batches = 1;
  std::int64_t tensors = 1;
  int stage = 0;
  DType grad_dtype = DType::fp32;  ///< fp32 or bf16
  std::int64_t numel = std::int64_t{1} << 24;
  std::int64_t bucket_numel = std::int64_t{1} << 18;  ///< a multiple of layout_alignment
  int threads = 1;                                    ///< of each rank
  int ranks = 1;                                      ///< threads of one process
  Offload offload = {};

  /// Different leaves: more micro-batches begin again with the first. No power of two, so that no two nodes of the tree
  /// are equal.
  std::int64_t num_leaves() const { return micro_batches < 5 ? micro_batches : 5; }

  /// "M = 4, 69 tensors, stage 1, bf16 gradients"
  std::string text() const;
};

/// Tensors as equal as can be, the first ones longer by one element.
FlatLayout layout_of(const ProductCase& what);

/// Bytes of memory that measuring a case takes at most.
double needed_bytes(const ProductCase& what);

/// Errors: invalid_argument for fewer elements than tensors; unavailable if the memory does not suffice.
void require_possible(const ProductCase& what);

}  // namespace zeroproof::verification::bench
