// SPDX-License-Identifier: Apache-2.0
#include "bench_chain.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench_view.hpp"
#include "chain.hpp"
#include "peers/peer.hpp"
#include "progress.hpp"

namespace carat::cli {
namespace {

struct Product {
    Job job;
    std::string kernel, input;  // input: the product whose result it reads, empty for activations of its own
    double predicted_us = NAN;
    Floor floor;
    CheckReport check = {};
};

struct ChainResult {
    std::string model;
    int64_t tokens = 0;
    size_t layers = 0;  // in the rotation
    std::vector<Product> products = {};
    Timing timing = {};  // of one layer
    std::map<std::string, PeerResult> peers = {};
    std::string refusal = "";
    ExitCode refusal_code = kOk;

    double floor_us() const {
        double sum = 0;
        for (const Product& product : products) sum += product.floor.us;
        return sum;
    }
    const Product* wrong() const {
        for (const Product& product : products)
            if (!product.check.ok()) return &product;
        return nullptr;
    }
};

// A run's fixed parts.
struct Run {
    const ChainOptions& options;
    const Context& context;
    const Stream& stream;
    std::vector<Guest> guests;
};

// A peer's launch of each product.
using Launches = std::vector<Repeater::Enqueue>;

// Its best algorithm for a product, timed alone on cold operands; empty with the reason in `entry`.
Repeater::Enqueue best_of(const Run& run, const Guest& guest, const Job& job, PeerResult& entry) {
    auto sets = allocate_cold(run.context, job.problem, seed_of(run.options.machine), job.alpha, job.beta);
    const auto ask = run.options.check ? &Peer::invite : &Peer::prepare;
    std::string why_not;
    const auto contestant = (guest.peer.get()->*ask)(job.problem, *sets, &why_not);
    Repeater::Enqueue launch = contestant ? contestant->enqueue() : nullptr;
    if (launch)
        entry.choice += fmt::format("{}{}: {}", entry.choice.empty() ? "" : "; ", job.name, contestant->choice);
    else if (contestant)
        entry.choice = fmt::format("{} runs in a process of its own and is no part of a chain", peer_title(guest.name));
    else
        entry.choice = fmt::format("{}: {}", job.name, why_not);
    return launch;
}

// Empty where the peer does not compute one of the products.
Launches launches_of(const Run& run, const Guest& guest, const std::vector<Job>& jobs, PeerResult& entry) {
    entry.choice = guest.left_out;
    if (!guest.peer) return {};
    Launches launches;
    for (const Job& job : jobs) {
        launches.push_back(best_of(run, guest, job, entry));
        if (!launches.back()) return {};
    }
    return launches;
}

// Names, kernels and floors, before anything is timed.
void describe(const Run& run, const Chain& chain, ChainResult& result) {
    result.layers = chain.layers().sets;
    for (size_t i = 0; i < chain.products(); ++i) {
        const Job& job = chain.job(i);
        const double predicted_us = chain.plan(i).predicted_us();
        result.products.push_back(
            {.job = job,
             .kernel = chain.plan(i).kernel(),
             .input = chain.fed(i) ? chain.job((i + chain.products() - 1) % chain.products()).name : "",
             .predicted_us = predicted_us > 0 ? predicted_us : NAN,
             .floor = floor_of(run.context, job.problem)});
    }
}

// The racers of a chain: ours, then every peer that runs all of it.
class Race {
  public:
    Race(const Run& run, const Chain& chain) : run_(run), chain_(chain) {
        add([&chain](size_t layer, void* stream) { chain.execute(layer, stream); });
    }

    void enter(const Launches& launches, PeerResult& entry) {
        try {
            add([&chain = chain_, launches](size_t layer, void* stream) {
                for (size_t i = 0; i < launches.size(); ++i) launches[i](chain.operands(i, layer), stream);
            });
        } catch (const std::runtime_error& error) {
            entry.choice = fmt::format("its chain cannot be launched: {}", one_line(error.what()));
            return;
        }
        samplers_.back() = unless_it_fails(samplers_.back(), &entry.choice);
        entries_.push_back(&entry);
    }

    Timing run() const {
        const std::vector<Timing> timings = measure(samplers_, {.seconds = run_.options.budget});
        for (size_t i = 0; i < entries_.size(); ++i) entries_[i]->timing = timings[i + 1];
        return timings[0];
    }

  private:
    void add(const Repeater::Launch& launch) {
        repeaters_.push_back(std::make_unique<Repeater>(run_.context, run_.stream, chain_.layers(), launch));
        samplers_.push_back([&repeater = *repeaters_.back()] { return repeater.sample(); });
    }

    const Run& run_;
    const Chain& chain_;
    std::vector<std::unique_ptr<Repeater>> repeaters_;
    std::vector<Sampler> samplers_;
    std::vector<PeerResult*> entries_;
};

void time_chain(const Run& run, const std::vector<Job>& jobs, ChainResult& result) {
    const Chain chain(run.context, jobs, plan_options(run.options.machine), seed_of(run.options.machine));
    describe(run, chain, result);
    if (run.options.check) {
        const std::vector<CheckReport> reports = chain.check(run.stream);
        for (size_t i = 0; i < reports.size(); ++i) result.products[i].check = reports[i];
    }
    Race race(run, chain);
    for (const Guest& guest : run.guests) {
        PeerResult& entry = result.peers[guest.name];
        const Launches launches = launches_of(run, guest, jobs, entry);
        if (!launches.empty()) race.enter(launches, entry);
    }
    result.timing = race.run();
}

Json product_json(const Product& product) {
    Json json = {{"name", product.job.name}};
    json.update(problem_json(product.job.problem, product.job.alpha, product.job.beta));
    json["input"] = maybe(product.input);
    json["kernel"] = product.kernel;
    json["floor_us"] = maybe(product.floor.us);
    json["predicted_us"] = maybe(product.predicted_us);
    json["check"] = product.check.json(false);
    return json;
}

Json chain_json(const ChainResult& r) {
    Json json = {{"model", r.model}, {"tokens", r.tokens}, {"layers", r.layers}};
    json["us"] = maybe(r.timing.us);
    json["p05_us"] = maybe(r.timing.p05_us);
    json["p95_us"] = maybe(r.timing.p95_us);
    json["floor_us"] = maybe(r.floor_us());
    json["of_floor"] = maybe(r.floor_us() / r.timing.us);
    json["ratio"] = maybe(ratio_of(r.peers, r.timing.us));
    json["peers"] = Json::object();
    for (const auto& [name, peer] : r.peers) json["peers"][name] = peer.json();
    json["gemms"] = Json::array();
    for (const Product& product : r.products) json["gemms"].push_back(product_json(product));
    return json;
}

Cell check_cell(const ChainResult& r) {
    if (r.wrong()) return {"WRONG: " + r.wrong()->job.name, Tone::bad};
    return r.products.front().check.ran ? Cell("ok", Tone::good) : Cell("not checked", Tone::faint);
}

Table chains_table(const std::vector<ChainResult>& results, const std::vector<std::string>& peers) {
    std::vector<std::string> titles = {">tokens", ">us a layer", ">p05", ">p95", ">sum of floors", ">% of it"};
    for (const std::string& peer : peers) titles.push_back(fmt::format(">{} us", peer_title(peer)));
    if (!peers.empty()) titles.push_back(">ratio");
    titles.push_back("check");
    Table table(titles);
    for (const ChainResult& r : results) {
        std::vector<Cell> row = {fmt::format("{}", r.tokens)};
        if (!r.refusal.empty()) {
            row.resize(titles.size() - 1, Cell("-"));
            row.push_back(Cell("no: " + r.refusal, Tone::warning));
            table.add(row);
            continue;
        }
        const double us = r.timing.us;
        for (double value : {us, r.timing.p05_us, r.timing.p95_us, r.floor_us(), 100 * r.floor_us() / us})
            row.emplace_back(human(value));
        for (const std::string& peer : peers) row.emplace_back(human(r.peers.at(peer).us()));
        if (!peers.empty()) row.emplace_back(human(ratio_of(r.peers, us)));
        row.push_back(check_cell(r));
        table.add(row);
    }
    return table;
}

Table products_table(const std::vector<ChainResult>& results) {
    Table table({"layer, M x N x K", "kernel", "reads the result of", ">floor us", "check"});
    for (const ChainResult& r : results)
        for (const Product& p : r.products)
            table.add({p.job.name + ", " + shape_name(p.job.problem), p.kernel, p.input.empty() ? "-" : p.input,
                       human(p.floor.us), p.check.cell()});
    return table;
}

// The first of what went wrong, in the order in which it matters, and a sentence on it.
ExitCode verdict_of(const std::vector<ChainResult>& results, size_t planned, ExitCode stopped) {
    for (const ChainResult& r : results)
        if (const Product* product = r.wrong()) {
            complain(fmt::format("the result of {}, {} is wrong: {}", product->job.name,
                                 shape_name(product->job.problem), describe_failure(product->check)));
            return kCheckFailed;
        }
    if (stopped != kOk) {
        complain(fmt::format("{}: {} of {} chains were done and are written",
                             stopped == kInterrupted ? "interrupted" : "--timeout has passed", results.size(),
                             planned));
        return stopped;
    }
    for (const ChainResult& r : results)
        if (r.refusal_code != kOk) {
            complain(fmt::format("the chain of {} tokens was not timed: {}", r.tokens, r.refusal));
            return r.refusal_code;
        }
    return kOk;
}

void print_tables(const ChainOptions& options, const std::vector<ChainResult>& results) {
    if (!options.output.tables() || results.empty()) return;
    const bool colored = options.output.colored(stdout);
    print(fmt::format("One decoder layer of {}, as a chain\n\n", one_line(results[0].model)) +
          chains_table(results, options.peers).str(colored) + "\n" + products_table(results).str(colored));
}

ChainResult result_of(const Run& run, const DecoderLayer& layer, bool first) {
    ChainResult result = {.model = layer.model, .tokens = layer.tokens};
    try {
        time_chain(run, jobs_of(run.options.problem, layer.gemms), result);
    } catch (const Error& error) {
        // A wrong flag is wrong for every chain; one that no kernel takes is left out of a sweep.
        if (error.status() == CARAT_INVALID_VALUE && first) throw;
        result.refusal = one_line(error.what());
        result.refusal_code = exit_code_of(error.status());
    }
    return result;
}

}  // namespace

Json measure_chains(const ChainOptions& options, ExitCode& code) {
    require_one_source(options.problem, options.source);
    std::vector<DecoderLayer> layers;
    for (int64_t tokens : tokens_of(options.source))
        layers.push_back(decoder_layer(options.source.model, tokens, tp_of(options.source)));
    const Context context = make_context(options.machine);
    const Stream stream(context);
    const Arena arena = arena_of(options.machine, context, stream);
    Json report = {{"schema", "carat.bench_chain/1"}, {"env", environment_json(context, options.machine)}};
    Run run = {options, context, stream, {}};
    for (const std::string& name : options.peers) run.guests.push_back(join(name, arena, report["env"]));

    std::vector<ChainResult> results;
    Progress progress(options.output, layers.size());
    for (size_t i = 0; i < layers.size() && stop_asked() == kOk; ++i) {
        progress.next(fmt::format("a chain of {} tokens", layers[i].tokens));
        results.push_back(result_of(run, layers[i], i == 0));
    }
    progress.clear();
    const bool all = results.size() == layers.size() && stop_asked() != kInterrupted;
    report["env"]["device_after"] = device_state_json(context);
    report["chains"] = Json::array();
    for (const ChainResult& r : results)
        if (r.refusal.empty())
            report["chains"].push_back(chain_json(r));
        else
            report["skipped"].push_back({{"model", r.model}, {"tokens", r.tokens}, {"reason", r.refusal}});
    print_tables(options, results);
    code = verdict_of(results, layers.size(), all ? kOk : stop_asked());
    return report;
}

}  // namespace carat::cli
