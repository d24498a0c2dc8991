// SPDX-License-Identifier: Apache-2.0
#include "shapes.hpp"

#include <sstream>

namespace carat::cli {
namespace {

constexpr size_t kLargestShapesFile = size_t(16) << 20;
constexpr int64_t kLargestExtent = int64_t(1) << 40;

Shape parse_line(const std::vector<std::string>& words, const std::string& where) {
    if (words.size() < 3 || words.size() > 5)
        fail(kInputOutput, "{}: {} words where \"m n k [dtype] [layout]\" is wanted", where, words.size());
    Shape shape;
    try {
        shape.m = parse_integer(words[0], "m", 0, kLargestExtent);
        shape.n = parse_integer(words[1], "n", 0, kLargestExtent);
        shape.k = parse_integer(words[2], "k", 0, kLargestExtent);
        if (words.size() > 3) shape.dtype = words[3], parse_dtype(words[3], "dtype");
        if (words.size() > 4) shape.layout = words[4];
    } catch (const Failure& failure) {
        fail(kInputOutput, "{}: {}", where, failure.what());
    }
    if (!shape.layout.empty() && shape.layout != "nt" && shape.layout != "nn" && shape.layout != "tn" &&
        shape.layout != "tt")
        fail(kInputOutput, "{}: layout got \"{}\": it takes one of nt, nn, tn, tt", where, one_line(shape.layout));
    return shape;
}

Json layers_of(const std::string& model, int64_t tokens, int64_t tp) {
    return parse_json(carat::models(model.c_str(), tokens, static_cast<int32_t>(tp)), "the model's layers");
}

Shape shape_of(const Json& gemm) {
    Shape shape;
    shape.name = text_at(gemm, "name", "?");
    shape.m = static_cast<int64_t>(number_at(gemm, "m", 0));
    shape.n = static_cast<int64_t>(number_at(gemm, "n", 0));
    shape.k = static_cast<int64_t>(number_at(gemm, "k", 0));
    shape.groups = static_cast<int64_t>(number_at(gemm, "groups", 0));
    return shape;
}

}  // namespace

std::vector<Shape> shapes_of_file(const std::string& path) {
    std::istringstream lines(read_text_file(path, kLargestShapesFile));
    std::vector<Shape> shapes;
    std::string line;
    for (size_t number = 1; std::getline(lines, line); ++number) {
        std::istringstream text(line.substr(0, line.find('#')));
        std::vector<std::string> words;
        for (std::string word; text >> word;) words.push_back(word);
        if (!words.empty())
            shapes.push_back(parse_line(words, fmt::format("--shapes {} line {}", one_line(path), number)));
    }
    if (shapes.empty())
        fail(kInputOutput, "--shapes {} holds no problem: write lines \"m n k [dtype] [layout]\"", one_line(path));
    return shapes;
}

std::vector<Shape> shapes_of_model(const std::string& model, const std::vector<int64_t>& tokens, int64_t tp) {
    std::vector<Shape> shapes;
    for (int64_t count : tokens) {
        const Json report = layers_of(model, count, tp);
        for (const Json& gemm : member(report, "gemms")) shapes.push_back(shape_of(gemm));
    }
    return shapes;
}

DecoderLayer decoder_layer(const std::string& model, int64_t tokens, int64_t tp) {
    const Json report = layers_of(model, tokens, tp);
    DecoderLayer layer = {text_at(report, "model"), tokens, {}};
    bool experts = false;
    for (const Json& gemm : member(report, "gemms")) {
        if (text_at(gemm, "tokens_rule") == "last_token") continue;
        layer.gemms.push_back(shape_of(gemm));
        experts |= layer.gemms.back().groups > 0;
    }
    // The plain feed-forward block is of the layers that have no experts.
    if (experts)
        std::erase_if(layer.gemms, [](const Shape& s) { return s.name == "gate_up_proj" || s.name == "down_proj"; });
    return layer;
}

}  // namespace carat::cli
