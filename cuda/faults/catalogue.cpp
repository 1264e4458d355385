#include "cuda/faults/catalogue.hpp"

#include <array>

namespace zeroproof::cuda {
namespace {

constexpr std::array<Fault, 25> catalogue = {{
    {"do-nothing", "elementwise math", Phase::update, "the update leaves master and moments as they are", ""},
    {"Z01-decay-after-update", "elementwise math", Phase::update,
     "weight decay reads the parameter after the update moved it", "huggingface/transformers#14539"},
    {"Z03-eps-under-bias-correction", "elementwise math", Phase::update,
     "eps is added before the bias correction of the denominator", "karpathy/nanochat#304"},
    {"Z17-vector-body-not-stored", "elementwise math", Phase::cast,
     "the 16-bit cast stores only the tail behind the last full vector", "pytorch/pytorch#191763"},
    {"Z20-state-zeroed-each-step", "state init", Phase::update, "exp_avg is reset before every update",
     "kozistr/pytorch_optimizer#516"},
    {"Z33-replicated-counted-per-rank", "clipping", Phase::norm,
     "the norm adds a replicated gradient once per rank", "pytorch/pytorch#88955"},
    {"Z49-double-unscale", "scaling", Phase::unscale, "the loss scale is taken out twice",
     "pytorch/pytorch#94060"},
    {"Z53-found-inf-not-global", "scaling", Phase::unscale, "every rank judges overflow on its own shard",
     "facebookresearch/fairscale#179"},
    {"Z58-hysteresis-not-refilled", "scaling", Phase::unscale,
     "the hysteresis counter is never filled up again", "deepspeedai/DeepSpeed#3553"},
    {"Z60-sum-instead-of-mean", "scaling", Phase::prepare, "micro-batch gradients are summed, not averaged",
     "deepspeedai/DeepSpeed#7773"},
    {"Z64-accumulator-overwritten", "reduction", Phase::reduce,
     "a later micro-batch overwrites the sum of the earlier", "deepspeedai/DeepSpeed#7718"},
    {"Z70-bf16-accumulator", "precision", Phase::reduce, "partial gradient sums are kept in bf16",
     "deepspeedai/DeepSpeed#1800"},
    {"Z78-shard-from-unpadded-count", "sharding", Phase::update,
     "the shard's length comes from the unpadded count, so its end is never updated",
     "NVIDIA/Megatron-LM#561"},
    {"Z84-last-bucket-not-gathered", "communication", Phase::gather,
     "the last bucket keeps the parameters of the step before", "NVIDIA/Megatron-LM#950"},
    {"Z91-transport-corrupts-a-line", "communication", Phase::gather,
     "128 bytes that the last rank receives have a bit flipped", "NVIDIA/nccl#740"},
    {"Z106-counter-advances-on-skip", "step count", Phase::unscale,
     "a skipped step advances the step counter", "huggingface/accelerate#4242"},
    {"Z116-no-master", "precision", Phase::cast, "master is rebuilt from the 16-bit parameters",
     "NVIDIA/apex#1728"},
    {"fused-clip-forgotten", "clipping", Phase::update, "the fused step leaves the clip coefficient out", ""},
    {"fused-cast-of-old-master", "precision", Phase::cast, "the fused step casts master before it is updated",
     ""},
    {"skip-keeps-norm", "clipping", Phase::unscale,
     "a skipped step still reports the norm of the step before", ""},
    {"found-inf-not-cleared", "scaling", Phase::prepare,
     "the flag of a skipped step stays set in the next one", ""},
    {"skip-ignored", "scaling", Phase::unscale, "found_inf is set but the step is not skipped", ""},
    {"buffer-hidden", "memory", Phase::cast, "the optimizer does not expose param_shard", ""},
    {"leaf-computed-twice", "reduction", Phase::reduce, "a rank computes its micro-batches twice", ""},
    {"leaf-edited", "memory", Phase::reduce, "the reduction writes into the caller's leaf gradient", ""},
}};

}  // namespace

Span<const Fault> fault_catalogue() { return catalogue; }

bool faults_built() {
#if defined(ZP_WITH_FAULTS)
  return true;
#else
  return false;
#endif
}

}  // namespace zeroproof::cuda
