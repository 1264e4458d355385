#include "cuda/optimizer/production_optimizer.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/step/setup_agreement.hpp"
#include "cuda/optimizer/optimizer_checks.hpp"
#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {
namespace {

OptimizerSetup adapt(OptimizerSetup setup, Space space) {
  validate(setup);
  if (space == Space::device) setup.windows = Windows::off;  // that memory is host memory
  return setup;
}

/// Collective over comm, if shared memory is to be used.
std::unique_ptr<SharedMemoryGroup> find_near(const OptimizerSetup& setup) {
  if (setup.windows == Windows::off || setup.comm->world_size() == 1) return nullptr;
  return std::make_unique<SharedMemoryGroup>(*setup.comm);
}

/// Stage 0: G of every rank in memory where the others can read their parts of it.
std::unique_ptr<SharedBuffers> share_sums(const OptimizerSetup& setup,
                                          const SharedMemoryGroup* near) {
  if (setup.stage > 0 || near == nullptr || !near->all()) return nullptr;
  const auto world = static_cast<std::size_t>(setup.comm->world_size());
  return std::make_unique<SharedBuffers>(
      near->group(),
      std::vector<SharedBuffers::Shapes>(world, {{setup.layout->padded_numel(), DType::fp32}}));
}

std::unique_ptr<StateSplit> split_state(const OptimizerSetup& setup,
                                        const std::vector<FlatRange>& ranges) {
  if (!setup.offload.on()) return nullptr;
  return std::make_unique<StateSplit>(setup, ranges);
}

std::unique_ptr<OffloadedState> offload_state(const OptimizerSetup& setup, const StateSplit* split,
                                              Space space, const OffloadMakers& makers) {
  if (split == nullptr) return nullptr;
  if (makers.state) return makers.state(setup, *split);
  if (setup.offload.place == OffloadPlace::file) return offload_to_file(setup, *split);
  return offload_to_host(setup, *split, space == Space::device);
}

std::unique_ptr<OffloadedGradBuffer> offloaded_grads(const OptimizerSetup& setup,
                                                     const StateSplit* split,
                                                     MemoryLedger& ledger) {
  if (split == nullptr || !setup.offload.moves_grads()) return nullptr;
  return std::make_unique<OffloadedGradBuffer>(setup.offload, *split, ledger);
}

/// Null where kernels on a device read and store all of it.
std::unique_ptr<StateBlocks> tiles_of(const OptimizerSetup& setup, Space space,
                                      const StateSplit* split, const std::vector<FlatRange>& ranges,
                                      const RuleState& state, const CountedBuffer& master) {
  if (setup.state_formats.plain() || (space == Space::device && split == nullptr)) return nullptr;
  return std::make_unique<StateBlocks>(setup, resident_pieces(*setup.layout, ranges, split), state,
                                       master, split);
}

}  // namespace

ProductionOptimizer::ProductionOptimizer(const OptimizerSetup& setup, Space space,
                                         const KernelTable& ops, const MakeLocalStep& make_step,
                                         const std::optional<CommGroups>& comm_groups,
                                         const OffloadMakers& offload)
    : setup_(adapt(setup, space)),
      comm_groups_(comm_groups.value_or(CommGroups{setup.comm, setup.replicas, setup.tp})),
      ranges_(state_ranges(setup_)),
      pieces_(setup_.layout->pieces(ranges_)),
      plans_(plan_buckets(setup_)),
      ledger_(space_of(space), setup_.guards),
      shared_memory_group_(find_near(setup_)),
      memory_(ledger_, setup_.guards, comm_groups_),
      reduce_(setup_, plans_, ops, memory_, shared_memory_group_.get(), comm_groups_),
      split_(split_state(setup_, ranges_)),
      offloaded_(offload_state(setup_, split_.get(), space, offload)),
      offloaded_grads_(offloaded_grads(setup_, split_.get(), ledger_)),
      sums_(share_sums(setup_, shared_memory_group_.get())),
      grad_(sums_ ? sums_->mine(0, ledger_, MemoryClass::grad_sum)
            : offloaded_grads_
                ? offloaded_grads_->buffer()
                : CountedBuffer(ledger_, MemoryClass::grad_sum, total_numel(ranges_), DType::fp32)),
      master_(ledger_, MemoryClass::master, resident_numel(),
              setup_.state_formats.master == MasterFormat::bf16 ? DType::bf16 : DType::fp32),
      param_store_(setup_, ranges_, shared_memory_group_.get(), ledger_),
      params_(setup_, plans_, memory_, param_store_, shared_memory_group_.get(),
              *comm_groups_.comm),
      state_(setup_.hyper, setup_.state_formats, resident_numel(),
             blocks_of_state(setup_, resident_pieces(*setup_.layout, ranges_, split_.get())),
             ledger_),
      tiles_(tiles_of(setup_, space, split_.get(), ranges_, state_, master_)),
      scales_(setup_, ParamScales::Of::params, ranges_, ledger_),
      columns_(setup_, params_.full_ranges(),
               {ranges_, plans_, memory_, shared_memory_group_.get(), *comm_groups_.comm}),
      shard_{setup_,       ranges_,          pieces_,
             grad_,        master_,          param_store_,
             state_,       split_.get(),     scales_ ? &scales_ : nullptr,
             tiles_.get(), columns_.store(), columns_.scales()} {
  if (split_) {
    auto step = std::make_unique<SplitStateStep>(shard_, *offloaded_, ledger_.space(), make_step,
                                                 ops, offload.step, offloaded_grads_.get());
    offload_step_ = step.get();
    step_ = std::move(step);
  } else {
    step_ = make_step(shard_);
  }
  if (sums_) reduce_.read_sums(*sums_);
}

std::int64_t ProductionOptimizer::resident_numel() const {
  return split_ ? split_->resident_numel() : total_numel(ranges_);
}

MemoryUse ProductionOptimizer::memory() const {
  MemoryUse use = ledger_.use();
  if (!offload_step_) return use;
  use.offloaded_host = offload_step_->host_bytes();
  use.offloaded_file = offloaded_->file_bytes();
  if (!offloaded_grads_) return use;
  use.offloaded_host += offloaded_grads_->host_bytes();
  use.offloaded_file += offloaded_grads_->file_bytes();
  return use;
}

void ProductionOptimizer::load_state(const FullState& state) {
  require_state(setup_, state);
  const auto whole = [&](BufferId id) {
    if (id == BufferId::master) return state.master;
    if (!is_state_scale(id)) return state.*state_buffers[index_of(id)].full;
    for (const StateBuffer& buffer : state_buffers) {
      if (scales_of(buffer.id) == id) return state.*buffer.scale;
    }
    return Span<const float>();
  };
  Exec exec = setup_.exec;
  if (ledger_.space().kind == Space::device)
    exec.num_threads = 1;  // the stream belongs to this thread
  const auto has = [&](BufferId id) { return !whole(id).empty(); };
  load(exec, state, has,
       [&](const MemorySpace& space, BufferId id, std::int64_t begin, Span<float> local) {
         space.from_host(local.data(), whole(id).data() + begin,
                         static_cast<std::int64_t>(local.size_bytes()));
       });
}

void ProductionOptimizer::load_state_from(const StateSource& source) {
  constexpr std::size_t most = std::size_t{1} << 20;  // elements at a time
  FullState counters;
  const std::vector<std::uint64_t> tensor_steps = source.tensor_steps();
  counters.tensor_steps = tensor_steps;
  counters.applied_steps = source.applied_steps();
  counters.scaler = source.scaler();
  const std::vector<float> param_scale = source.param_scale();
  const std::vector<std::uint32_t> amax_history = source.amax_history();
  counters.param_scale = param_scale;
  counters.amax_history = amax_history;
  require_counters(setup_, counters);
  Exec exec = setup_.exec;
  exec.num_threads = 1;  // a source is read from front to back
  std::vector<float> values;
  std::mutex reading;  // or by the threads that store state in fewer bits, in their order
  const auto has = [&](BufferId id) { return source.has(id); };
  load(exec, counters, has,
       [&](const MemorySpace& space, BufferId id, std::int64_t begin, Span<float> local) {
         const std::lock_guard one_reads(reading);
         for (std::size_t done = 0; done < local.size(); done += values.size()) {
           values.resize(std::min(most, local.size() - done));
           source.read(id, begin + static_cast<std::int64_t>(done), values);
           space.from_host(local.data() + done, values.data(),
                           static_cast<std::int64_t>(values.size() * sizeof(float)));
         }
       });
}

void ProductionOptimizer::load(const Exec& exec, const FullState& counters,
                               const std::function<bool(BufferId)>& has, const ReadState& read) {
  require_same_setup(setup_, counters);
  if (!setup_.state_formats.plain()) {
    load_stored(counters, has, read);
  } else {
    load_resident(exec, read);
    step_->load(counters);
  }
  params_.count_cast();
  gather();
  ledger_.space().wait();  // reports errors to the caller; other streams may then read the buffers
  loaded_ = true;
}

void ProductionOptimizer::load_stored(const FullState& counters,
                                      const std::function<bool(BufferId)>& has,
                                      const ReadState& read) {
  const MemorySpace& space = ledger_.space();
  StateBlocks::Chosen of_codes{};
  for (std::size_t i = 0; i < state_buffers.size(); ++i) {
    const BufferId scales = scales_of(state_buffers[i].id);
    of_codes[i] = state_.kept(i) && has_scales(state_.format(i)) && has(scales);
    if (!of_codes[i]) continue;
    Span<float> rest = state_.scales(i).as<float>();
    for (const FlatRange& blocks : state_.blocks().ranges()) {
      const auto count = static_cast<std::size_t>(blocks.numel());
      read(space, scales, blocks.begin, rest.first(count));
      rest = rest.subspan(count);
    }
  }
  const auto read_into = [&](const MemorySpace& to) {
    return [&, at = &to](const Exec&, const Piece& piece, const host::FusedState& state) {
      read(*at, BufferId::master, piece.global_begin, state.master);
      const std::array<Span<float>, state_buffers.size()> kept = {
          state.exp_avg, state.exp_avg_sq, state.max_exp_avg_sq, state.momentum_buffer};
      for (std::size_t i = 0; i < state_buffers.size(); ++i) {
        if (state_.kept(i)) read(*at, state_buffers[i].id, piece.global_begin, kept[i]);
      }
    };
  };
  if (split_) {
    const auto read_scales = [&](std::size_t i, std::int64_t block, Span<float> scales) {
      read(host_space(), scales_of(state_buffers[i].id), block, scales);
    };
    offload_step_->fill_offloaded(counters, of_codes, read_into(host_space()), read_scales);
  }
  step_->load_stored(counters, of_codes, read_into(space));
}

void ProductionOptimizer::load_resident(const Exec& exec, const ReadState& read) {
  const host::PieceLoop& resident = split_ ? split_->resident() : pieces_;
  const MemorySpace& space = ledger_.space();
  resident.run_joined(exec, any_tensors, [&](const Exec&, const Piece& piece) {
    Piece here = piece;
    if (split_) here.local_begin = split_->place(piece.local_begin);
    read(space, BufferId::master, piece.global_begin, part(master_, here));
    for (std::size_t i = 0; i < state_buffers.size(); ++i) {
      if (state_.kept(i))
        read(space, state_buffers[i].id, piece.global_begin, state_.part(i, here));
    }
  });
  if (split_) load_offloaded(read);
}

void ProductionOptimizer::load_offloaded(const ReadState& read) {
  const std::vector<OffloadedBuffer> buffers = offloaded_buffers(setup_);
  offloaded_->for_chunks(OffloadedState::Use::fill,
                         [&](const StateSplit::Chunk& chunk, const ChunkState& to) {
                           for_values(buffers, *split_, chunk, to,
                                      [&](BufferId id, const Piece& piece, Span<float> values) {
                                        read(host_space(), id, piece.global_begin, values);
                                      });
                         });
}

void ProductionOptimizer::run_phase(Phase phase, GradSource& leaves) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "no state was loaded before phase " + std::string(name(phase)),
           "masters and moments are still poisoned", "call load_state first");
  ZP_CHECK(!skipped() || !skipped_on_overflow(phase), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " was called in a skipped step",
           "a step with an overflow must not change the state", "begin the next step with prepare");
  execute(phase, leaves);
}

void ProductionOptimizer::execute(Phase phase, GradSource& leaves) {
  switch (phase) {
    case Phase::prepare:
      return step_->prepare(leaves);
    case Phase::reduce:
      step_->begin_sum();
      return reduce(leaves);
    case Phase::unscale:
      return step_->unscale();
    case Phase::norm:
      return step_->norm();
    case Phase::clip:
      return step_->clip();
    case Phase::update:
      return step_->update();
    case Phase::cast:
      step_->cast();
      return params_.count_cast();
    case Phase::gather:
      return gather();
  }
}

void ProductionOptimizer::reduce(GradSource& leaves) {
  ZP_CHECK(leaves.space() == ledger_.space().kind, ErrorCode::invalid_argument,
           "the gradients of a step are in device memory",
           "the buffers of this optimizer are in host memory",
           "copy them to the host, or use the optimizer in the space device");
  if (LayeredModel* model = leaves.layers()) return reduce_layered(*model, leaves);
  const GradTarget target = step_->grad_target();
  step_->end_sum(reduce_.reduce_leaves(leaves, target), target);
}

void ProductionOptimizer::gather() {
  params_.gather_all();
  columns_.rebuild(setup_.exec, params_.full());
}

void ProductionOptimizer::overwritten(Phase phase) {
  step_->overwritten(phase);
  if (phase != Phase::cast) return;
  param_store_.take_shown();
  if (ParamStore* const columns = columns_.store()) columns->take_shown();
}

// Views of the production optimizer for observers and comparisons.

std::vector<ExposedBuffer> ProductionOptimizer::exposed(Phase phase) {
  if (phase == Phase::cast) {
    param_store_.show();
    std::vector<ExposedBuffer> buffers = scales_.exposed();
    buffers.push_back({BufferId::param_shard, param_store_.shard(), ranges_});
    for (ExposedBuffer& buffer : columns_.exposed()) buffers.push_back(std::move(buffer));
    return buffers;
  }
  if (phase == Phase::gather) {
    if (setup_.stage == 3 && params_.full_ranges().empty()) return {};
    std::vector<ExposedBuffer> buffers = {
        {BufferId::param_full, params_.full(), params_.full_ranges(), param_store_.one_copy()}};
    if (columns_) {
      buffers.push_back(
          {BufferId::param_columns, columns_.view(), params_.full_ranges(), columns_.one_copy()});
    }
    return buffers;
  }
  return step_->exposed(phase);
}

std::vector<ExposedBuffer> ProductionOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (const Phase phase : all_phases) {
    for (ExposedBuffer& buffer : exposed(phase)) {
      const bool seen = std::ranges::any_of(buffers, [&](const ExposedBuffer& other) {
        return other.view.data == buffer.view.data && other.view.numel > 0;
      });
      if (!seen) buffers.push_back(std::move(buffer));
    }
  }
  return buffers;
}

std::string ProductionOptimizer::damaged_guard() const {
  const std::pair<const char*, const GuardedBuffer*> all[] = {
      {"grad", &*grad_}, {"master", &*master_}, {"param_full", &params_.full_buffer()}};
  for (const auto& [name, buffer] : all) {
    if (!buffer->guards_intact()) return name;
  }
  if (!param_store_.guards_intact()) return "param_shard";
  if (const std::string_view name = columns_.damaged_guard(); !name.empty())
    return std::string(name);
  if (const std::string_view name = scales_.damaged_guard(); !name.empty())
    return std::string(name);
  for (std::size_t i = 0; i < state_buffers.size(); ++i) {
    if (!state_[i].guards_intact()) return std::string(name(state_buffers[i].id));
    if (!state_.scales(i).guards_intact()) return std::string(name(scales_of(state_buffers[i].id)));
  }
  return {};
}

}  // namespace zeroproof::cuda
