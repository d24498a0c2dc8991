// SPDX-License-Identifier: Apache-2.0
#include "core/problem_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

// The words of an enumeration, in the order of its values.
constexpr const char* kModes[] = {"single", "batched", "pointers", "grouped"};
constexpr const char* kForms[] = {"none", "m_offsets", "m_indices", "m_masked", "k_offsets", "array"};
constexpr const char* kComputes[] = {"default", "f32", "tf32", "3xtf32", "bf16x9", "promoted", "fast"};
constexpr const char* kRecipes[] = {"none", "tensorwise", "rowwise", "1x128", "128x128", "groupwise"};
constexpr const char* kSparsities[] = {"dense", "a", "b"};
constexpr const char* kBiases[] = {"none", "n", "m"};
constexpr const char* kActivations[] = {"none", "relu", "gelu_erf", "gelu_tanh", "silu", "sigmoid"};
constexpr const char* kGates[] = {"none", "interleaved", "split"};
constexpr const char* kOutScales[] = {"none", "tensor", "row", "1x128"};

// ---------------------------------------------------------------- to JSON

const char* order_name(carat_order order) {
    return order == CARAT_ROW_MAJOR ? "row" : "col";
}

Json packed_or(int64_t value, int64_t packed) {
    return value == packed ? Json("packed") : Json(value);
}

int64_t packed_stride(const carat_matrix& x, Extents extents) {
    return x.ld * (x.order == CARAT_ROW_MAJOR ? extents.rows : extents.cols);
}

Json matrix_json(const Problem& p, const carat_matrix& x, Extents extents) {
    Json json = {{"dtype", name(x.dtype)}, {"order", order_name(x.order)}};
    json["ld"] = packed_or(x.ld, packed_ld(x, extents));
    if (p.mode == CARAT_BATCHED || p.mode == CARAT_GROUPED)
        json["batch_stride"] = packed_or(x.batch_stride, packed_stride(x, extents));
    return json;
}

Json scale_json(const carat_scale& s, Extents grid) {
    Json json = {{"recipe", kRecipes[s.recipe]}};
    if (s.group) json["group"] = s.group;
    if (s.zero_points) json["zero_points"] = true;
    const carat_matrix as_matrix = {CARAT_F32, s.order, s.ld, s.batch_stride};
    json["order"] = order_name(s.order);
    json["ld"] = packed_or(s.ld, packed_ld(as_matrix, grid));
    json["batch_stride"] = packed_or(s.batch_stride, packed_stride(as_matrix, grid));
    return json;
}

// JSON has no infinities.
Json limit_json(float value) {
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

Json epilogue_json(const carat_epilogue& e) {
    Json json = Json::object();
    if (e.scalars_on_device) json["scalars_on_device"] = true;
    if (e.bias != CARAT_BIAS_NONE) {
        json["bias"] = kBiases[e.bias];
        json["bias_dtype"] = name(e.bias_dtype);
        if (e.bias_batch_stride) json["bias_batch_stride"] = e.bias_batch_stride;
    }
    if (e.activation != CARAT_ACT_NONE) json["activation"] = kActivations[e.activation];
    if (e.gate != CARAT_GATE_NONE) json["gate"] = kGates[e.gate];
    if (e.clamp) json["clamp"] = {limit_json(e.clamp_lo), limit_json(e.clamp_hi)};
    if (e.out_scale != CARAT_OUT_SCALE_NONE) json["out_scale"] = kOutScales[e.out_scale];
    if (e.amax) json["amax"] = true;
    return json;
}

// ---------------------------------------------------------------- from JSON

// Reads the fields of one object; the first failure is kept, and done() refuses fields that nobody asked for.
class Reader {
  public:
    Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
        if (!json.is_object()) refuse("is no object: write {{\"field\": value, ...}}");
    }

    int64_t integer(const char* key, int64_t fallback) {
        const Json* value = find(key);
        if (!value) return fallback;
        const bool fits = value->is_number_integer() &&
                          !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX));
        if (!fits) refuse("has a \"{}\" that is no whole number", key);
        return fits ? value->get<int64_t>() : fallback;
    }
    int64_t extent(const char* key) {
        if (ok() && !json_.contains(key)) refuse("has no \"{}\": give the problem's size", key);
        return integer(key, 0);
    }
    int64_t integer_or_packed(const char* key, int64_t packed) {
        const bool word = ok() && json_.contains(key) && json_[key] == "packed";
        return word ? (find(key), packed) : integer(key, packed);
    }
    bool flag(const char* key) {
        const Json* value = find(key);
        if (value && !value->is_boolean()) refuse("has a \"{}\" that is neither true nor false", key);
        return value && value->is_boolean() && value->get<bool>();
    }
    std::string text(const char* key, const char* fallback) {
        const Json* value = find(key);
        if (value && !value->is_string()) refuse("has a \"{}\" that is no string", key);
        return value && value->is_string() ? value->get<std::string>() : fallback;
    }
    template <class Enum, size_t N>
    void word(const char* key, const char* const (&words)[N], Enum& value) {
        const std::string given = text(key, words[0]);
        const auto found = std::find(std::begin(words), std::end(words), given);
        if (found == std::end(words))
            refuse("has \"{}\": \"{}\": use one of {}", key, shown(given), fmt::join(words, ", "));
        else
            value = Enum(found - std::begin(words));
    }
    carat_dtype dtype(const char* key) {
        const std::string given = text(key, "");
        if (given.empty()) return CARAT_NONE;
        const auto type = parse_dtype(given);
        if (type.ok()) return *type;
        refuse("has a \"{}\" that is no type: {}", key, shown(type.status().sentence()));
        return CARAT_NONE;
    }
    carat_order order(const char* key) {
        const std::string given = text(key, "row");
        if (given != "row" && given != "col") refuse("has \"{}\": \"{}\": use row or col", key, shown(given));
        return given == "col" ? CARAT_COL_MAJOR : CARAT_ROW_MAJOR;
    }
    void clamp(const char* key, carat_epilogue& e) {
        const Json* value = find(key);
        if (!value) return;
        e.clamp = 1;
        const bool pair = value->is_array() && value->size() == 2;
        if (!pair || !limit((*value)[0], e.clamp_lo) || !limit((*value)[1], e.clamp_hi))
            refuse("has a \"{}\" that is no pair of numbers", key);
    }
    // The object under `key`, null where there is none.
    const Json* object(const char* key) { return find(key); }
    std::string inside(const char* key) const { return fmt::format("{}.{}", where_, key); }

    void take(const Status& status) {
        if (ok()) status_ = status;
    }
    Status done() {
        if (!ok()) return status_;
        for (const auto& [key, value] : json_.items())
            if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
                return fail(CARAT_INVALID_VALUE, "{} has \"{}\", which this version of Carat does not know", where_,
                            shown(key));
        return {};
    }

  private:
    bool ok() const { return status_.ok(); }
    static std::string shown(const std::string& text) { return text.size() > 60 ? text.substr(0, 60) + "..." : text; }
    static bool limit(const Json& value, float& limit) {
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        if (value.is_number()) return limit = value.get<float>(), true;
        if (value == "inf") return limit = kInfinity, true;
        if (value == "-inf") return limit = -kInfinity, true;
        return false;
    }
    template <class... Args>
    void refuse(fmt::format_string<Args...> sentence, Args&&... args) {
        if (ok())
            status_ = Status(CARAT_INVALID_VALUE, where_ + " " + fmt::format(sentence, std::forward<Args>(args)...));
    }
    const Json* find(const char* key) {
        if (!ok()) return nullptr;
        asked_.emplace_back(key);
        const auto found = json_.find(key);
        return found == json_.end() ? nullptr : &*found;
    }

    const Json& json_;
    std::string where_;
    std::vector<std::string> asked_;
    Status status_;
};

carat_matrix parse_matrix(Reader& parent, const char* key) {
    const Json* json = parent.object(key);
    if (!json) return {CARAT_NONE, CARAT_ROW_MAJOR, 0, CARAT_PACKED};
    Reader reader(*json, parent.inside(key));
    const carat_matrix x = {reader.dtype("dtype"), reader.order("order"), reader.integer_or_packed("ld", 0),
                            reader.integer_or_packed("batch_stride", CARAT_PACKED)};
    parent.take(reader.done());
    return x;
}

carat_scale parse_scale(Reader& parent, const char* key) {
    carat_scale s = {CARAT_SCALE_NONE, 0, 0, CARAT_ROW_MAJOR, 0, CARAT_PACKED};
    const Json* json = parent.object(key);
    if (!json) return s;
    Reader reader(*json, parent.inside(key));
    reader.word("recipe", kRecipes, s.recipe);
    s.group = int32_t(std::clamp<int64_t>(reader.integer("group", 0), 0, INT32_MAX));
    s.zero_points = reader.flag("zero_points");
    s.order = reader.order("order");
    s.ld = reader.integer_or_packed("ld", 0);
    s.batch_stride = reader.integer_or_packed("batch_stride", CARAT_PACKED);
    parent.take(reader.done());
    return s;
}

carat_epilogue parse_epilogue(Reader& parent, const char* key) {
    carat_epilogue e = {};
    const Json* json = parent.object(key);
    if (!json) return e;
    Reader reader(*json, parent.inside(key));
    e.scalars_on_device = reader.flag("scalars_on_device");
    reader.word("bias", kBiases, e.bias);
    e.bias_dtype = reader.dtype("bias_dtype");
    e.bias_batch_stride = reader.integer("bias_batch_stride", 0);
    reader.word("activation", kActivations, e.activation);
    reader.word("gate", kGates, e.gate);
    reader.clamp("clamp", e);
    reader.word("out_scale", kOutScales, e.out_scale);
    e.amax = reader.flag("amax");
    parent.take(reader.done());
    return e;
}

}  // namespace

Json problem_json(const Problem& p) {
    Json json = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
    if (p.mode != CARAT_SINGLE) json["mode"] = kModes[p.mode];
    if (p.mode == CARAT_GROUPED) json["group_form"] = kForms[p.group_form];
    if (p.mode != CARAT_SINGLE) json["batch"] = p.batch;
    json["a"] = matrix_json(p, p.a, {p.m, p.a_cols()});
    json["b"] = matrix_json(p, p.b, {p.b_rows(), p.n});
    if (p.has_c()) json["c"] = matrix_json(p, p.c, {p.m, p.n});
    json["d"] = matrix_json(p, p.d, {p.m, p.d_cols()});
    if (p.compute != CARAT_COMPUTE_DEFAULT) json["compute"] = kComputes[p.compute];
    if (p.scale_a.recipe != CARAT_SCALE_NONE) json["scale_a"] = scale_json(p.scale_a, scale_grid(p.scale_a, p.m, p.k));
    if (p.scale_b.recipe != CARAT_SCALE_NONE) json["scale_b"] = scale_json(p.scale_b, scale_grid(p.scale_b, p.n, p.k));
    if (p.sparsity != CARAT_DENSE) json["sparsity"] = kSparsities[p.sparsity];
    if (Json epilogue = epilogue_json(p.epilogue); !epilogue.empty()) json["epilogue"] = std::move(epilogue);
    return json;
}

Result<carat_problem> parse_problem(const Json& json) {
    Reader reader(json, "the problem");
    carat_problem p = {};
    p.struct_size = sizeof p;
    p.m = reader.extent("m"), p.n = reader.extent("n"), p.k = reader.extent("k");
    reader.word("mode", kModes, p.mode);
    reader.word("group_form", kForms, p.group_form);
    p.batch = reader.integer("batch", 1);
    p.a = parse_matrix(reader, "a");
    p.b = parse_matrix(reader, "b");
    p.c = parse_matrix(reader, "c");
    p.d = parse_matrix(reader, "d");
    reader.word("compute", kComputes, p.compute);
    p.scale_a = parse_scale(reader, "scale_a");
    p.scale_b = parse_scale(reader, "scale_b");
    reader.word("sparsity", kSparsities, p.sparsity);
    p.epilogue = parse_epilogue(reader, "epilogue");
    CARAT_TRY(reader.done());
    return p;
}

}  // namespace carat
