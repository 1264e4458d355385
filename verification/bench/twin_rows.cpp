#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "verification/bench/half_span.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {

void add_twin_rows(std::vector<Row>& rows, Data& data, int num_threads) {
  namespace host = cuda::host;
  Exec exec;
  exec.num_threads = num_threads;
  const Span<const float> grad = data.grad_sum.span();
  const Span<float> work = data.work_grad.span();
  const auto add = [&](const char* name, double num_bytes, const char* limit, auto body, double goal = 0) {
    rows.push_back({name, num_bytes, data.numel, body, {}, {}, {limit}, goal});
  };
  add(
      "adamw", 28, "4R3W",
      [=, &data] {
        host::adamw_update(exec, data.scalars, grad, data.threads.master.span(), data.threads.exp_avg.span(),
                           data.threads.exp_avg_sq.span());
      },
      0.90);
  // A factor of 1 is multiplied like any other; it keeps the values where they are over many rounds.
  add("unscale", 8, "RW", [=] { host::unscale(exec, 1.0F, work, work); });
  add("add_nodes", 12, "2R1W", [=] { host::add_nodes(exec, work, grad, work); });
  add("norm", 4, "R", [=] {
    NormLimbs limbs;
    host::grad_norm_accumulate(exec, grad, limbs);
  });
  add("clip", 8, "RW", [=] { host::clip(exec, 1.0F, work, work); });
  add("cast to bf16", 6, "R4W2", [=, &data] { host::cast_to_bf16(exec, grad, as_half<bf16>(data.half)); });
  add("cast to fp16", 6, "R4W2", [=, &data] { host::cast_to_fp16(exec, grad, as_half<fp16>(data.half)); });
}

}  // namespace zeroproof::verification::bench
