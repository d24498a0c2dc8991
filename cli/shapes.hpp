// SPDX-License-Identifier: Apache-2.0
// shapes.hpp: lists of problems from a file or from a model.
#pragma once

#include <string>
#include <vector>

#include "problem_flags.hpp"

namespace carat::cli {

// Lines "m n k [dtype] [layout]"; "#" starts a comment; blank lines are skipped; --dtype replaces each dtype. Failures name the file and the line.
std::vector<Shape> shapes_of_file(const std::string& path);
// The linear layers of a bundled model or a config.json at each number of tokens; an expert layer is one grouped problem.
std::vector<Shape> shapes_of_model(const std::string& model, const std::vector<int64_t>& tokens, int64_t tp);

// The linear layers of one decoder layer in the order of execution, without the head; of a model with experts, of a layer that has them.
struct DecoderLayer {
    std::string model;
    int64_t tokens = 0;
    std::vector<Shape> gemms;
};
DecoderLayer decoder_layer(const std::string& model, int64_t tokens, int64_t tp);

}  // namespace carat::cli
