#pragma once
// The record of format_perplexity: a line for every form and seed.

#include <string>
#include <vector>

#include "tests/perplexity/forms.hpp"

namespace zeroproof::perplexity {

inline constexpr std::uint64_t seeds[] = {1, 2, 3};

/// The lines before those of the forms.
std::vector<std::string> heading();

/// "parameters fp32 | 1 | 84.1150 33.8847": what is found after the first `num_points` of the points.
std::string line_of(const Form& form, std::uint64_t seed, std::size_t num_points);

/// Errors: std::runtime_error if it cannot be read.
std::vector<std::string> lines_of(const std::string& file);

/// printf of one number.
std::string text_of(double value, const char* format);

}  // namespace zeroproof::perplexity
