// SPDX-License-Identifier: Apache-2.0
#include "bench_view.hpp"

#include <algorithm>
#include <cmath>

#include "peers/peer.hpp"

namespace carat::cli {
namespace {

std::string csv_field(const Json& value) {
    if (value.is_null()) return "";
    if (!value.is_string()) return value.dump();
    std::string text(1, '"');
    for (char c : value.get<std::string>()) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text + '"';
}

}  // namespace

Json PeerResult::json() const {
    const bool timed = timing.samples > 0;
    return {{"us", maybe(us())},
            {"p05_us", maybe(timed ? timing.p05_us : NAN)},
            {"p95_us", maybe(timed ? timing.p95_us : NAN)},
            {"choice", maybe(choice)}};
}

std::string fastest_of(const std::map<std::string, PeerResult>& peers) {
    std::string best;
    double least = INFINITY;
    for (const auto& [peer, entry] : peers)
        if (entry.us() < least) least = entry.us(), best = peer;
    return best;
}

double ratio_of(const std::map<std::string, PeerResult>& peers, double us) {
    const std::string peer = fastest_of(peers);
    return peer.empty() ? NAN : peers.at(peer).us() / us;
}

Table bench_table(const std::vector<BenchResult>& results, const std::vector<std::string>& peers) {
    const bool named =
        std::any_of(results.begin(), results.end(), [](const BenchResult& r) { return !r.name.empty(); });
    std::vector<std::string> titles = {
        named ? "layer, M x N x K" : "M x N x K", "kernel", ">us", ">p05", ">p95", ">TFLOP/s", ">GB/s", ">% of floor"};
    const bool counted = std::any_of(results.begin(), results.end(), [](const BenchResult& r) { return r.count > 0; });
    if (counted) titles.insert(titles.begin() + 1, ">count");
    for (const std::string& peer : peers) titles.push_back(fmt::format(">{} us", peer_title(peer)));
    if (!peers.empty()) titles.push_back(">ratio");
    if (peers.size() > 1) titles.push_back("best peer");
    titles.push_back("check");
    Table table(titles);
    for (const BenchResult& r : results) {
        std::vector<Cell> row = {r.name.empty() ? shape_name(r.problem) : r.name + ", " + shape_name(r.problem)};
        if (counted) row.emplace_back(fmt::format("{}", r.count));
        if (!r.refusal.empty()) {
            row.resize(titles.size() - 1, Cell("-"));
            row.push_back(Cell("no: " + r.refusal, Tone::warning));
            table.add(row);
            continue;
        }
        const double us = r.timing.us;
        for (const std::string& text : {r.kernel, human(us), human(r.timing.p05_us), human(r.timing.p95_us),
                                        human(tflops(flops_of(r.problem), us)),
                                        human(gigabytes_per_second(r.floor.bytes, us)), human(100 * r.floor.us / us)})
            row.emplace_back(text);
        for (const std::string& peer : peers) row.emplace_back(human(r.peers.at(peer).us()));
        if (!peers.empty()) row.emplace_back(human(r.ratio()));
        if (peers.size() > 1) row.emplace_back(r.best_peer().empty() ? "-" : peer_title(r.best_peer()));
        row.push_back(r.check.cell());
        table.add(row);
    }
    return table;
}

std::string ratio_summary(const std::vector<BenchResult>& results) {
    size_t count = 0;
    double sum_of_logs = 0;
    const BenchResult* worst = nullptr;
    for (const BenchResult& r : results) {
        if (!std::isfinite(r.ratio())) continue;
        ++count;
        sum_of_logs += std::log(r.ratio());
        if (!worst || r.ratio() < worst->ratio()) worst = &r;
    }
    if (count < 2) return "";
    return fmt::format("{} problems beside the best peer: geometric mean of the ratios {:.3f}, least {:.3f} ({})\n",
                       count, std::exp(sum_of_logs / double(count)), worst->ratio(), shape_name(worst->problem));
}

Json replay_json(const std::string& trace, const std::vector<BenchResult>& results) {
    struct Sums {
        double us = 0, ours_us = 0;
    };
    uint64_t executions = 0;
    double us = 0;
    size_t problems = 0;
    std::map<std::string, Sums> sums;
    for (const BenchResult& r : results) {
        if (r.timing.samples == 0) continue;
        ++problems;
        executions += r.count;
        us += double(r.count) * r.timing.us;
        for (const auto& [name, peer] : r.peers) {
            if (!std::isfinite(peer.us())) continue;
            sums[name].us += double(r.count) * peer.us();
            sums[name].ours_us += double(r.count) * r.timing.us;
        }
    }
    Json peers = Json::object();
    for (const auto& [name, sum] : sums)
        peers[name] = {{"us", sum.us}, {"ours_us", sum.ours_us}, {"ratio", maybe(sum.us / sum.ours_us)}};
    return {{"trace", trace}, {"problems", problems}, {"executions", executions}, {"us", us}, {"peers", peers}};
}

std::string replay_summary(const Json& replay) {
    if (!replay.is_object()) return "";
    std::string text = fmt::format("The {} executions of {} problems take {} us", member(replay, "executions").dump(),
                                   member(replay, "problems").dump(), human(number_at(replay, "us", NAN)));
    for (const auto& [name, peer] : member(replay, "peers").items())
        text += fmt::format("; with {} {} us where it was timed, {} of ours", peer_title(name),
                            human(number_at(peer, "us", NAN)), human(number_at(peer, "ratio", NAN)));
    return text + "\n";
}

std::string bench_csv(const Json& results) {
    static constexpr const char* kColumns[] = {"m",      "n",      "k",        "batch",    "groups",      "dtype",
                                               "layout", "recipe", "epilogue", "kernel",   "us",          "p05_us",
                                               "p95_us", "tflops", "gbps",     "floor_us", "predicted_us"};
    std::string text = fmt::format("{},", fmt::join(kColumns, ","));
    for (const std::string& peer : peer_names()) text += peer + "_us,";
    text += "check_ok\n";
    for (const Json& r : results) {
        std::vector<std::string> fields;
        for (const char* column : kColumns) fields.push_back(csv_field(member(r, column)));
        for (const std::string& peer : peer_names())
            fields.push_back(csv_field(member(member(member(r, "peers"), peer.c_str()), "us")));
        fields.push_back(csv_field(member(member(r, "check"), "ok")));
        text += join(fields, ",") + "\n";
    }
    return text;
}

}  // namespace carat::cli
