// SPDX-License-Identifier: Apache-2.0
// config.cpp: a configuration's name and back. The name is read from its end, since the family is free text with
// underscores: FAMILY_A_B_D_LAYOUT_BMxBNxBK[_tTMxTN][_sSTAGES][_cCMxCN][_kPARTSFORM]
// [_pp][_rmSTRIP | _rnSTRIP][_aligned][_swap].
#include "dispatch/config.hpp"

#include <charconv>
#include <cstdlib>
#include <vector>

namespace carat {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

bool parse_int(std::string_view text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value > 0;
}

// "32x32x8" into two or three numbers.
bool parse_numbers(std::string_view text, std::initializer_list<int*> values) {
    const auto parts = split(text, 'x');
    if (parts.size() != values.size()) return false;
    size_t i = 0;
    for (int* value : values)
        if (!parse_int(parts[i++], *value)) return false;
    return true;
}

// "4c": parts and the letter of their form.
bool parse_split(std::string_view text, Config& config) {
    config.split_form = SplitForm(text.back());
    const bool known = config.split_form == SplitForm::cluster || config.split_form == SplitForm::serial ||
                       config.split_form == SplitForm::workspace;
    return known && parse_int(text.substr(0, text.size() - 1), config.split_k);
}

bool parse_suffix(std::string_view part, Config& config) {
    if (part.size() < 2) return false;
    const std::string_view rest = part.substr(1);
    switch (part[0]) {
        case 'a':
            return config.aligned = part == "aligned";
        case 't':
            return parse_numbers(rest, {&config.tm, &config.tn});
        case 's':
            if (part == "swap") return config.swapped = true;
            if (part == "sk") return config.split_form = SplitForm::stream_k, true;
            return parse_int(rest, config.stages);
        case 'c':
            return parse_numbers(rest, {&config.cluster_m, &config.cluster_n});
        case 'k':
            return parse_split(rest, config);
        case 'p':
            return config.pingpong = rest == "p";
        case 'r': {
            if (!parse_int(rest.substr(1), config.strip) || (rest[0] != 'm' && rest[0] != 'n')) return false;
            if (rest[0] == 'n') config.strip = -config.strip;
            return true;
        }
        default:
            return false;
    }
}

bool is_layout(std::string_view text) {
    return text.size() == 2 && (text[0] == 'n' || text[0] == 't') && (text[1] == 'n' || text[1] == 't');
}

bool parse_into(const std::vector<std::string_view>& parts, Config& config) {
    size_t tile = parts.size();
    while (tile-- > 0)
        if (parse_numbers(parts[tile], {&config.bm, &config.bn, &config.bk})) break;
    if (tile == size_t(-1) || tile < 5) return false;
    for (size_t i = tile + 1; i < parts.size(); ++i)
        if (!parse_suffix(parts[i], config)) return false;
    if (!is_layout(parts[tile - 1])) return false;
    config.layout = parts[tile - 1];
    carat_dtype* types[] = {&config.a, &config.b, &config.d};
    for (size_t i = 0; i < 3; ++i) {
        const auto type = parse_dtype(parts[tile - 4 + i]);
        if (!type.ok()) return false;
        *types[i] = *type;
    }
    for (size_t i = 0; i + 4 < tile; ++i) config.family += (i ? "_" : "") + std::string(parts[i]);
    return !config.family.empty();
}

}  // namespace

std::string Config::name() const {
    std::string text = fmt::format("{}_{}_{}_{}_{}_{}x{}x{}", family, carat::name(a), carat::name(b), carat::name(d),
                                   layout, bm, bn, bk);
    if (tm) text += fmt::format("_t{}x{}", tm, tn);
    if (stages) text += fmt::format("_s{}", stages);
    if (cluster_m) text += fmt::format("_c{}x{}", cluster_m, cluster_n);
    if (split_k) text += fmt::format("_k{}{}", split_k, char(split_form));
    if (split_form == SplitForm::stream_k) text += "_sk";
    if (pingpong) text += "_pp";
    if (strip) text += fmt::format("_r{}{}", strip > 0 ? 'm' : 'n', std::abs(strip));
    if (aligned) text += "_aligned";
    if (swapped) text += "_swap";
    return text;
}

Result<Config> Config::parse(std::string_view name) {
    Config config;
    if (parse_into(split(name, '_'), config) && config.name() == name) return config;
    return fail(CARAT_INVALID_VALUE,
                "'{}' is no configuration name: it must read FAMILY_A_B_D_LAYOUT_BMxBNxBK with optional _tTMxTN "
                "_sSTAGES _cCMxCN _kPARTS(c|s|w) _sk _pp _rmSTRIP _rnSTRIP _aligned _swap",
                name);
}

}  // namespace carat
