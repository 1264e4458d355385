// Wrong norms and clipping from public bugs: replaced phases norm and clip.

#include <cmath>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

class WrongNorm : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  /// The norm over `comm` and `tp` of all elements of this rank, or of those it counts.
  void take_norm(Communicator* comm, Communicator* tp, bool every_element) {
    pieces_.sum_joined<cuda::GlobalNorm::Parts>(
        setup_.exec,
        [&](const Piece& a, const Piece& b) {
          return counted(a) == counted(b) && same_clip_group(a, b);
        },
        [&](const Exec& exec, const Piece& piece, cuda::GlobalNorm::Parts& norms) {
          if (!every_element && !counted(piece)) return;
          global_norm_.add(ops_, exec, part(grad_, piece), norms.of(clip_group(piece)));
        },
        [&](cuda::GlobalNorm::Parts& norms) { global_norm_.add(norms); });
    global_norm_.finish(comm, tp, grad_norm_);
  }
};

/// In stage 0 every rank has counted every element, and the sum over ranks is still taken.
class CountedPerRank final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override { take_norm(setup_.comm, setup_.tp, false); }
};

/// The instances' squares are added, although each instance has counted all elements.
class AddedOverInstances final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override { take_norm(setup_.comm, setup_.replicas, false); }
};

/// Every TP rank counts the replicated tensors.
class ReplicaAsShard final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override { take_norm(setup_.comm, setup_.tp, true); }
};

/// The last rank takes part in the sum but uses its own.
class OwnNorm final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override {
    HostStep::norm();
    if (setup_.comm->rank() + 1 != setup_.comm->world_size()) return;
    global_norm_.clear();
    take_norm(nullptr, nullptr, false);
  }
};

/// The infinity norm uses the formula of the others: to the power 1 / inf.
class RootOfMaximum final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override {
    HostStep::norm();
    if (setup_.hyper.norm == NormForm::inf) grad_norm_.front() = std::pow(grad_norm_.front(), 0.0);
  }
};

/// The sum of squares is kept in fp32.
class Fp32Squares final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void norm() override {
    HostStep::norm();
    double& norm = grad_norm_.front();
    norm = std::sqrt(static_cast<float>(norm * norm));
  }
};

/// Gradients are assumed to still carry the loss scale.
class ScaledLimit final : public WrongNorm {
  using WrongNorm::WrongNorm;
  void clip() override {
    float& coef = clip_coef_.front();
    coef = cuda::host::clip_coef(std::ldexp(grad_norm_.front(), scaler_.log2_scale),
                                 setup_.hyper.max_norm);
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      ops_.clip(exec, coef, part(grad_, piece), part(grad_, piece));
    });
  }
};

}  // namespace

cuda::MakeLocalStep wrong_norm(std::string_view fault, const FaultContext& context) {
  if (fault == "replicated-counted-per-rank") return step_of<CountedPerRank>(context);
  if (fault == "norm-added-over-instances") return step_of<AddedOverInstances>(context);
  if (fault == "replica-counted-as-shard") return step_of<ReplicaAsShard>(context);
  if (fault == "norm-differs-across-ranks") return step_of<OwnNorm>(context);
  if (fault == "inf-norm-takes-root") return step_of<RootOfMaximum>(context);
  if (fault == "norm-squared-in-fp32") return step_of<Fp32Squares>(context);
  if (fault == "clip-divides-by-scale-again") return step_of<ScaledLimit>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
