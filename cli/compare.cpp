// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace carat::cli {
namespace {

constexpr size_t kLargestResultFile = size_t(256) << 20;

std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.is_null() ? "" : value.dump();
}

// What makes two results the same problem; the n-th of several alike meets the n-th of the other file.
std::string key_of(const Json& result, std::map<std::string, int>& seen) {
    std::string key = fmt::format("{} x {} x {}", text_of(member(result, "m")), text_of(member(result, "n")),
                                  text_of(member(result, "k")));
    const std::string batch = text_of(member(result, "batch")), groups = text_of(member(result, "groups"));
    if (!batch.empty() && batch != "1") key += " batch " + batch;
    if (!groups.empty()) key += " groups " + groups;
    for (const char* field : {"dtype", "layout", "recipe", "epilogue"})
        if (const std::string text = text_of(member(result, field)); !text.empty()) key += " " + one_line(text);
    if (const int before = seen[key]++; before > 0) key += fmt::format(" #{}", before + 1);
    return key;
}

using Keyed = std::vector<std::pair<std::string, const Json*>>;
Keyed keyed(const Json& results) {
    Keyed all;
    std::map<std::string, int> seen;
    for (const Json& result : member(results, "results")) {
        std::string key = key_of(result, seen);
        if (number_at(result, "us", 0) > 0) all.emplace_back(std::move(key), &result);
    }
    return all;
}

Change judge(const std::string& problem, const Json& before, const Json& after, double limit) {
    const double old_us = number_at(before, "us", 0), new_us = number_at(after, "us", 0);
    Change change = {problem, old_us, new_us, (new_us / old_us - 1) * 100, Verdict::same};
    if (new_us > old_us * (1 + limit))
        change.verdict = number_at(after, "p05_us", new_us) > old_us ? Verdict::slower : Verdict::noise;
    else if (new_us < old_us * (1 - limit))
        change.verdict = number_at(after, "p95_us", new_us) < old_us ? Verdict::faster : Verdict::noise;
    return change;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
    static constexpr const char* kNames[] = {"same", "noise", "faster", "slower", "added", "gone"};
    return kNames[static_cast<int>(verdict)];
}

std::vector<Change> compare_results(const Json& before, const Json& after, double limit) {
    const Keyed old_results = keyed(before), new_results = keyed(after);
    const auto find = [](const Keyed& results, const std::string& key) {
        return std::find_if(results.begin(), results.end(), [&](const auto& entry) { return entry.first == key; });
    };
    std::vector<Change> changes;
    for (const auto& [key, result] : new_results) {
        const auto old_result = find(old_results, key);
        if (old_result != old_results.end())
            changes.push_back(judge(key, *old_result->second, *result, limit));
        else
            changes.push_back({key, NAN, number_at(*result, "us", 0), NAN, Verdict::added});
    }
    for (const auto& [key, result] : old_results)
        if (find(new_results, key) == new_results.end())
            changes.push_back({key, number_at(*result, "us", 0), NAN, NAN, Verdict::gone});
    return changes;
}

bool any_slower(const std::vector<Change>& changes) {
    return std::any_of(changes.begin(), changes.end(), [](const Change& c) { return c.verdict == Verdict::slower; });
}

Json changes_json(const std::vector<Change>& changes) {
    Json rows = Json::array();
    for (const Change& c : changes)
        rows.push_back({{"problem", c.problem},
                        {"old_us", maybe(c.old_us)},
                        {"new_us", maybe(c.new_us)},
                        {"percent", maybe(c.percent)},
                        {"verdict", verdict_name(c.verdict)}});
    return rows;
}

Table changes_table(const std::vector<Change>& changes) {
    Table table({"problem", ">old us", ">new us", ">change", "verdict"});
    for (const Change& c : changes) {
        const Tone tone = c.verdict == Verdict::slower   ? Tone::bad
                          : c.verdict == Verdict::faster ? Tone::good
                                                         : Tone::plain;
        table.add({c.problem, human(c.old_us), human(c.new_us),
                   std::isfinite(c.percent) ? fmt::format("{:+.1f} %", c.percent) : "-",
                   Cell(verdict_name(c.verdict), tone)});
    }
    return table;
}

Json load_results(const std::string& path, const std::string& flag) {
    const std::string who = fmt::format("{} {}", flag, one_line(path));
    Json json = parse_json(read_text_file(path, kLargestResultFile), who);
    const std::string schema = text_at(json, "schema");
    if (schema != "carat.bench/1")
        fail(kInputOutput, "{} has schema \"{}\": it must be a result of `carat bench`, \"carat.bench/1\"", who,
             one_line(schema));
    if (!member(json, "results").is_array()) fail(kInputOutput, "{} has no list \"results\"", who);
    return json;
}

double parse_percent(const std::string& text, const std::string& flag) {
    const std::string number = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
    double value = 0;
    try {
        value = parse_real(number, flag);
    } catch (const Failure&) {
        value = -1;
    }
    if (value < 0) fail(kUsage, "{} got \"{}\": it takes a percentage such as 3%", flag, one_line(text));
    return value / 100;
}

}  // namespace carat::cli
