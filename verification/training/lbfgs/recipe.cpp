#include "verification/training/lbfgs/recipe.hpp"

#include <array>
#include <utility>

namespace zeroproof::verification {
namespace {

LbfgsHyper settings(LineSearch search, double lr, std::int64_t max_iter, std::int64_t history) {
  LbfgsHyper hyper;
  hyper.line_search = search;
  hyper.lr = lr;
  hyper.max_iter = max_iter;
  hyper.max_eval = 100;
  hyper.history_size = history;
  return hyper;
}

constexpr LineSearch none = LineSearch::none;
constexpr LineSearch armijo = LineSearch::armijo;
constexpr LineSearch wolfe = LineSearch::strong_wolfe;

LbfgsRecipe recipe(std::string_view workload, std::string_view name, std::string_view summary,
                   const LbfgsHyper& hyper, std::vector<LbfgsEnd> ends) {
  return {workload, name, summary, hyper, std::move(ends), {}, 0, false};
}

/// Steps without an early end.
std::vector<LbfgsEnd> whole() { return std::vector<LbfgsEnd>(3, LbfgsEnd::max_iter); }

/// Gradients of a model. Three pairs are kept: the first one is removed in the first iteration of
/// step 2.
void add_byte_gpt(std::vector<LbfgsRecipe>& all) {
  all.push_back(recipe("byte_gpt_tiny", "none", "whole steps", settings(none, 0.5, 4, 3), whole()));
  all.back().evicts = true;
  all.push_back(
      recipe("byte_gpt_tiny", "armijo", "backtracking", settings(armijo, 1, 4, 3), whole()));
  all.back().evicts = true;
  all.push_back(
      recipe("byte_gpt_tiny", "wolfe", "cubic interpolation", settings(wolfe, 1, 4, 3), whole()));
  all.back().evicts = true;
}

/// Awkward numbers, and every branch of a step. Two pairs are kept.
void add_rosenbrock(std::vector<LbfgsRecipe>& all) {
  using End = LbfgsEnd;
  const LbfgsHyper fixed = settings(none, 0.25, 5, 2);
  const LbfgsHyper search = settings(armijo, 1, 5, 2);
  const auto add = [&](std::string_view name, std::string_view summary, const LbfgsHyper& hyper,
                       std::vector<End> ends) -> LbfgsRecipe& {
    all.push_back(recipe("rosenbrock", name, summary, hyper, std::move(ends)));
    return all.back();
  };
  add("none", "whole steps", fixed, whole()).evicts = true;
  add("armijo", "backtracking", search, whole()).evicts = true;

  const LbfgsHyper interpolates = settings(wolfe, 1, 5, 2);
  add("wolfe", "cubic interpolation", interpolates, whole()).evicts = true;
  add("wolfe-nonfinite", "the same with trials that are not finite", interpolates, whole())
      .disturbed = {{1, 2, Disturbance::infinite_loss},
                    {1, 3, Disturbance::nan_gradient},
                    {2, 3, Disturbance::nan_gradient}};
  // Short lengths: the first trial of step 2 is as steep as the start, and the two after it are
  // reported as higher.
  LbfgsRecipe& earlier =
      add("wolfe-earlier", "the same; of three trials the first is taken", interpolates, whole());
  earlier.hyper.lr = 0.01;
  earlier.hyper.max_ls = 2;
  earlier.disturbed = {{2, 3, Disturbance::higher_loss}, {2, 4, Disturbance::higher_loss}};

  LbfgsRecipe& outbid = add("wolfe-failed", "the same with trials that are all higher",
                            interpolates, {End::max_iter, End::line_search, End::max_iter});
  outbid.hyper.max_ls = 2;
  outbid.disturbed = {{2, 2, Disturbance::higher_loss},
                      {2, 3, Disturbance::higher_loss},
                      {2, 4, Disturbance::higher_loss}};

  add("nonfinite", "f or one element of g is not finite", fixed,
      {End::nonfinite, End::nonfinite, End::nonfinite, End::max_iter})
      .disturbed = {{1, 4, Disturbance::infinite_loss},
                    {2, 3, Disturbance::nan_gradient},
                    {3, 1, Disturbance::infinite_loss}};
  add("nonfinite-trial", "the same, in trials of a search", search, whole()).disturbed = {
      {1, 3, Disturbance::nan_gradient}, {2, 2, Disturbance::infinite_loss}};

  LbfgsRecipe& failed = add("failed-search", "no trial of a search is accepted", search,
                            {End::max_iter, End::line_search, End::max_iter});
  failed.hyper.max_ls = 3;
  failed.disturbed = {{2, 2, Disturbance::higher_loss},
                      {2, 3, Disturbance::higher_loss},
                      {2, 4, Disturbance::higher_loss}};

  LbfgsRecipe& skipped = add("skipped-pair", "the curvature of a move is negative", fixed, whole());
  skipped.skipped = 1;
  skipped.disturbed = {{1, 4, Disturbance::steeper_gradient}};

  // The first move is a short one, so step 1 ends by its length.
  LbfgsRecipe& no_descent = add("no-descent", "a direction that descends too little, twice", search,
                                {End::step, End::max_iter, End::no_descent, End::no_descent});
  no_descent.hyper.tolerance_change = 0.1;

  LbfgsRecipe& max_eval =
      add("max-eval", "evaluations run out", search, std::vector<End>(3, End::max_eval));
  max_eval.hyper.max_eval = 3;

  LbfgsRecipe& tolerances = add("tolerances", "small moves, changes of f, gradients", search,
                                {End::step, End::loss, End::gradient, End::gradient});
  tolerances.hyper.max_iter = 6;
  tolerances.hyper.tolerance_change = 0.25;
  tolerances.hyper.tolerance_grad = 0.04;
}

}  // namespace

const std::vector<LbfgsRecipe>& lbfgs_recipes() {
  static const std::vector<LbfgsRecipe> recipes = [] {
    std::vector<LbfgsRecipe> all;
    add_byte_gpt(all);
    add_rosenbrock(all);
    return all;
  }();
  return recipes;
}

std::string_view name(LbfgsEnd end) {
  constexpr std::array<std::string_view, 8> names = {
      "max_iter", "max_eval", "gradient", "step", "loss", "no_descent", "line_search", "nonfinite"};
  return names[static_cast<std::size_t>(end)];
}

}  // namespace zeroproof::verification
