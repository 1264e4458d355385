// Wrong whole parameters from public bugs: replaced phase gather.

#include <cstring>

#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::ProductionOptimizer;

class WrongGather : public ProductionOptimizer {
 public:
  explicit WrongGather(const FaultContext& context)
      : ProductionOptimizer(context.setup, context.space, context.ops,
                            step_of<cuda::HostStep>(context)) {}
};

/// The parameters of a loaded state are not gathered before the first step ends.
class NoGatherAfterLoad final : public WrongGather {
  using WrongGather::WrongGather;
  void gather() override {
    if (loaded_) ProductionOptimizer::gather();
  }
};

/// Tensors that stay whole are gathered only once.
class PersistentOnce final : public WrongGather {
  using WrongGather::WrongGather;
  void gather() override {
    if (!loaded_) ProductionOptimizer::gather();
  }
};

/// The copy by columns keeps the loaded parameters.
class ColumnsStay final : public WrongGather {
  using WrongGather::WrongGather;
  void gather() override {
    if (!loaded_) return ProductionOptimizer::gather();
    params_.gather.gather_all();
  }
};

/// Parameters are gathered in full vectors, one vector too many.
class OneVectorMore final : public WrongGather {
  using WrongGather::WrongGather;
  void gather() override {
    ProductionOptimizer::gather();
    if (!loaded_) return;
    constexpr std::size_t vector = 32;
    static_assert(vector <= GuardedBuffer::guard_bytes);
    const TensorView whole = params_.gather.full();
    std::memset(static_cast<std::byte*>(whole.data) + whole.num_bytes(), 0, vector);
  }
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_gather(std::string_view fault,
                                                   const FaultContext& context) {
  if (fault == "no-gather-after-load") return std::make_unique<NoGatherAfterLoad>(context);
  if (fault == "persistent-not-refreshed") return std::make_unique<PersistentOnce>(context);
  if (fault == "columns-not-rebuilt") return std::make_unique<ColumnsStay>(context);
  if (fault == "params-written-past-their-end") return std::make_unique<OneVectorMore>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
