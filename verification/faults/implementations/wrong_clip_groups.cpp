// Norms, limits and coefficients of the wrong clip group: replaced phases norm and clip.

#include <algorithm>

#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/faults/planted/wrong_groups.hpp"

namespace zeroproof::verification {
namespace {

using cuda::GlobalNorm;
using cuda::HostStep;

class WrongClipGroups : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  /// The norms over `comm` and `tp`. add(norms, piece, put): calls put(part) for every sum that a
  /// piece contributes to.
  template <class Add>
  void take_norms(Communicator* comm, Communicator* tp, const Add& add) {
    pieces_.sum_joined<GlobalNorm::Parts>(
        setup_.exec, [&](const Piece& a, const Piece& b) { return same_clip_group(a, b); },
        [&](const Exec& exec, const Piece& piece, GlobalNorm::Parts& norms) {
          if (!counted(piece)) return;
          add(norms, piece, [&](cuda::NormPart& norm) {
            global_norm_.add(ops_, exec, part(grad_, piece), norm);
          });
        },
        [&](GlobalNorm::Parts& norms) { global_norm_.add(norms); });
    global_norm_.finish(comm, tp, grad_norm_);
  }
  Communicator* sharded_over() const { return setup_.stage > 0 ? setup_.comm : nullptr; }
};

/// The default group's norm includes the tensors that have their own group.
class DefaultCountsAll final : public WrongClipGroups {
  using WrongClipGroups::WrongClipGroups;
  void norm() override {
    take_norms(sharded_over(), setup_.tp,
               [&](GlobalNorm::Parts& norms, const Piece& piece, const auto& put) {
                 put(norms.of(0));
                 if (clip_group(piece) > 0) put(norms.of(clip_group(piece)));
               });
  }
};

/// All tensors with their own group count in the last group.
class LastGroupCounts final : public WrongClipGroups {
  using WrongClipGroups::WrongClipGroups;
  void norm() override {
    take_norms(sharded_over(), setup_.tp,
               [&](GlobalNorm::Parts& norms, const Piece& piece, const auto& put) {
                 put(norms.of(clip_group(piece) > 0 ? grad_norm_.size() - 1 : 0));
               });
  }
};

/// The reduction covers one norm's words: the other groups keep their shard's sums.
class FirstNormReduced final : public WrongClipGroups {
  class FirstWords final : public WrappedCommunicator {
   public:
    using WrappedCommunicator::WrappedCommunicator;
    void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
      inner_.all_reduce(data.first(std::min(data.size(), sizeof(NormLimbs) / sizeof(data[0]))), op);
    }
  };

  using WrongClipGroups::WrongClipGroups;
  void norm() override {
    FirstWords first(*setup_.comm);
    take_norms(sharded_over() != nullptr ? &first : nullptr, setup_.tp,
               [&](GlobalNorm::Parts& norms, const Piece& piece, const auto& put) {
                 put(norms.of(clip_group(piece)));
               });
  }
};

/// Every group uses the run's limit instead of its own.
class LimitOfTheRun final : public WrongClipGroups {
  using WrongClipGroups::WrongClipGroups;
  void clip() override {
    for (std::size_t group = 0; group < clip_coef_.size(); ++group) {
      clip_coef_[group] = cuda::host::clip_coef(grad_norm_[group], setup_.hyper.max_norm);
    }
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      ops_.clip(exec, clip_coef_[clip_group(piece)], part(grad_, piece), part(grad_, piece));
    });
  }
};

/// Every gradient is multiplied by the default group's coefficient.
class OneCoefficient final : public WrongClipGroups {
  using WrongClipGroups::WrongClipGroups;
  void clip() override {
    for (std::size_t group = 0; group < clip_coef_.size(); ++group) {
      clip_coef_[group] = cuda::host::clip_coef(grad_norm_[group], max_norms_[group]);
    }
    pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) {
      ops_.clip(exec, clip_coef_.front(), part(grad_, piece), part(grad_, piece));
    });
  }
};

}  // namespace

cuda::MakeLocalStep wrong_clip_groups(std::string_view fault, const FaultContext& context) {
  if (fault == "default-norm-counts-groups") return step_of<DefaultCountsAll>(context);
  if (fault == "norm-of-another-group") return step_of<LastGroupCounts>(context);
  if (fault == "one-norm-reduced") return step_of<FirstNormReduced>(context);
  if (fault == "limit-of-the-run-for-groups") return step_of<LimitOfTheRun>(context);
  if (fault == "one-coefficient-for-groups") return step_of<OneCoefficient>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
