// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rows_ws.hpp"

#include <algorithm>

#include "dispatch/aligned.hpp"
#include "dispatch/decode_cost.hpp"
#include "dispatch/ladder.hpp"
#include "dispatch/split_cost.hpp"
#include "dispatch/split_k.hpp"
#include "dispatch/swapped.hpp"
#include "dispatch/wgmma_kernel.hpp"
#include "dispatch/ws_cost.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

constexpr size_t kCandidates = 16;
constexpr int kWithoutWorkspace = 4;  // of these, where the best need one

void require(const Problem& p, const Target& target, Requirements& r) {
    require_16bit_gemm(p, target, 90, r);
    r.require(target.cc_major == 9 && target.cc_minor == 0,
              "its instructions (wgmma) exist in compute capability 9.0 alone, but {} has {}.{}", target.name,
              target.cc_major, target.cc_minor);
}

// ---------------------------------------------------------------- forms

// A configuration may stand for a product on aligned copies of the operands, of swapped operands, or both: this is what its
// kernel runs.
Problem kernel_problem(const Problem& p, const Config& c) {
    const Problem aligned = c.aligned ? align_operands(p) : p;
    return c.swapped ? swap_operands(aligned) : aligned;
}

Config kernel_config(Config c, const Problem& kernel_problem) {
    if (c.swapped) c = unswapped(std::move(c), kernel_problem);
    c.aligned = false;
    return c;
}

Prediction predict_kernel(const Problem& runs, const Config& c, const Target& target) {
    return adds_up_in_l2(c) ? split_predict(runs, c, target) : ws_predict(runs, c, target);
}

Prediction predict(const Problem& p, const Config& c, const Target& target) {
    const Problem runs = kernel_problem(p, c);
    Prediction prediction = predict_kernel(runs, kernel_config(c, runs), target);
    if (c.aligned) prediction.us += align_us(p, target);
    return prediction;
}

// Of the problem as it is, or swapped, each with the operands where they are or aligned.
std::vector<Config> forms(const Problem& p) {
    std::vector<Config> forms(1);
    if (can_align(p)) forms.emplace_back().aligned = true;
    if (!can_swap(p)) return forms;
    // Few tokens belong on the side of wgmma that goes in eights; weights go in 64s.
    constexpr int64_t kFewTokens = 32;
    const Weights weights = weights_of(p);
    if (weights == Weights::a && p.n <= kFewTokens) return forms;
    if (weights == Weights::b && p.m <= kFewTokens) {
        for (Config& form : forms) form.swapped = true;
        return forms;
    }
    for (size_t i = 0, count = forms.size(); i < count; ++i) {
        forms.push_back(forms[i]);
        forms.back().swapped = true;
    }
    return forms;
}

// ---------------------------------------------------------------- prepare

std::vector<Config> candidates(const Problem& p, const Target& target) {
    struct Ranked {
        double us;
        Config config;  // of `runs`
        const Config* form;
        const Problem* runs;
    };
    const std::vector<Config> all_forms = forms(p);
    std::vector<Problem> problems;
    for (const Config& form : all_forms) problems.push_back(kernel_problem(p, form));
    std::vector<Ranked> ranked;
    for (size_t i = 0; i < problems.size(); ++i) {
        const double before_us = all_forms[i].aligned ? align_us(p, target) : 0;
        std::vector<Config> tilings = ws_tilings(problems[i], target);
        for (Config& config : split_tilings(problems[i], tilings, target)) tilings.push_back(std::move(config));
        for (Config& config : tilings) {
            const double us = before_us + predict_kernel(problems[i], config, target).us;
            ranked.push_back({us, std::move(config), &all_forms[i], &problems[i]});
        }
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& x, const Ranked& y) { return x.us < y.us; });
    // Callers without a workspace shall have a choice, too.
    const auto as_it_is = [](const Ranked& one) { return !one.form->aligned && !adds_up_in_l2(one.config); };
    auto kept_end = ranked.begin() + ptrdiff_t(std::min(ranked.size(), kCandidates));
    if (std::none_of(ranked.begin(), kept_end, as_it_is)) {
        auto next = kept_end;
        for (auto place = kept_end - kWithoutWorkspace; place != kept_end; ++place)
            if ((next = std::find_if(next, ranked.end(), as_it_is)) != ranked.end()) std::swap(*place, *next++);
    }
    // And the tuner each way to split K through L2, whose costs are assumed.
    for (const SplitForm form : {SplitForm::serial, SplitForm::workspace, SplitForm::stream_k}) {
        const auto has_form = [&](const Ranked& one) { return one.config.split_form == form; };
        const auto best = std::find_if(ranked.begin(), ranked.end(), has_form);
        if (best == ranked.end() || best < kept_end) continue;
        std::rotate(kept_end, best, best + 1);
        ++kept_end;
    }
    ranked.erase(kept_end, ranked.end());
    std::vector<Config> configs;
    for (Ranked& one : ranked) {
        one.config.strip = ws_strip(*one.runs, one.config, target);
        if (one.form->swapped) one.config = swapped(std::move(one.config), p);
        one.config.aligned = one.form->aligned;
        configs.push_back(std::move(one.config));
    }
    return configs;
}

// Any order of tiles, and any stages that fit; K in any parts through L2.
bool has_kernel(const Problem& p, const Config& config, const Target& target) {
    if (config.split_form != SplitForm::none && config.split_form != SplitForm::cluster) {
        const Config whole = undivided(config);
        return config.split_k <= kMostPartsInL2 && why_not_split_in_l2(p, whole, config.split_form) == nullptr &&
               has_kernel(p, whole, target);
    }
    if (config.strip == 0 || !ws_fits(p, config, target)) return false;
    if (ws_lone_tile(p, config)) return true;
    for (Config known : ws_configs(p, target)) {
        known.strip = config.strip, known.stages = config.stages;
        if (known == config) return true;
    }
    return false;
}

bool has(const Problem& p, const Config& config, const Target& target) {
    if ((config.aligned && !can_align(p)) || (config.swapped && !can_swap(p))) return false;
    const Problem runs = kernel_problem(p, config);
    return has_kernel(runs, kernel_config(config, runs), target);
}

const char* why_not(const Problem& p, const Config& config) {
    if ((config.aligned && !can_align(p)) || (config.swapped && !can_swap(p))) return nullptr;
    if (config.split_form == SplitForm::none || config.split_form == SplitForm::cluster) return nullptr;
    if (config.split_k > kMostPartsInL2) return "splits K in more than 80 parts";
    const Problem runs = kernel_problem(p, config);
    return why_not_split_in_l2(runs, undivided(kernel_config(config, runs)), config.split_form);
}

Result<std::unique_ptr<Executable>> prepare(const Problem& p, const Config& config, Runtime& runtime) {
    const Problem runs = kernel_problem(p, config);
    const Config of_kernel = kernel_config(config, runs);
    CARAT_ASSIGN(auto executable,
                 prepare_wgmma(runs, of_kernel, runtime, {"gemm_ws.cuh", "carat_kernel::gemm_ws", true, true},
                               ws_block(of_kernel)));
    if (config.swapped) executable = swap_operands(std::move(executable));
    if (config.aligned) return align_operands(p, std::move(executable), runtime);
    return executable;
}

size_t workspace_bytes(const Problem& p, const Config& config) {
    const Problem runs = kernel_problem(p, config);
    const Config of_kernel = kernel_config(config, runs);
    return (config.aligned ? align_workspace_bytes(p) : 0) +
           split_workspace(runs, of_kernel, ws_block(of_kernel)).bytes();
}

// Every tile, in every form, adds the products of an element of D in the order of K, 16 at a time.
bool batch_invariant(const Problem&, const Config& config) {
    return config.split_form == SplitForm::none;
}

}  // namespace

const Row kRowWs = {kWsFamily,
                    "Hopper's tensor cores (wgmma) by a warp-specialised, persistent kernel with slots (f16, bf16).",
                    "kernels/gemm_ws.cuh",
                    CARAT_BACKEND_CUDA,
                    require,
                    candidates,
                    predict,
                    prepare,
                    has,
                    false,
                    workspace_bytes,
                    batch_invariant,
                    0,
                    why_not};

}  // namespace carat
