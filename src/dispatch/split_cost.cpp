// SPDX-License-Identifier: Apache-2.0
#include "dispatch/split_cost.hpp"

#include <algorithm>

#include "dispatch/ladder.hpp"
#include "dispatch/split_k.hpp"
#include "dispatch/ws_cost.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

// Assumed, to be measured: the fill of the words, and that the kernel then starts after it and not beside the one before; a
// second launch, beside the end of the first; from a part to the next one, beside the sums themselves.
constexpr double kFillUs = 1.3, kSecondKernelUs = 2, kHandOnUs = 1;
constexpr double kL2BytesPerUs = 5e6, kL2BytesPerUsOfBlock = 0.1e6;

// K in parts is a batch of products of a part's depth, each with operands of its own.
Problem batch_of_parts(const Problem& p, int parts) {
    Problem batch = without_epilogue(p);
    batch.mode = CARAT_BATCHED;
    batch.k = std::min(round_up(ceil_div(p.k, parts), kStageDepth), p.k);
    batch.batch = p.entries() * parts;
    for (carat_matrix* x : {&batch.a, &batch.b, &batch.d}) x->batch_stride = std::max<int64_t>(x->batch_stride, 64);
    return batch;
}

Config whole_of(Config config) {
    config.split_k = 0, config.split_form = SplitForm::none;
    return config;
}

// Of the tiles the most common, for each is ranked in each form.
bool may_split(const Problem& p, const Config& c, const Target& target) {
    const bool common = c.bm % kStripRows == 0 && c.bn % 64 == 0;
    return common && can_split_in_l2(p, c, SplitForm::serial) && 2 * ws_clusters(p, c) <= target.units;
}

}  // namespace

Prediction split_predict(const Problem& p, const Config& c, const Target& target) {
    const int parts = parts_in_l2(c);
    Prediction prediction = ws_predict(batch_of_parts(p, parts), whole_of(c), target);
    const double sums = double(split_workspace(p, c, ws_block(c)).sums_bytes);  // of all slots
    if (serial_parts(c) > 1) {
        const double slot = sums / double(std::max<int64_t>(ws_clusters(p, c), 1));
        prediction.us += kFillUs + (parts - 1) * (kHandOnUs + 2 * slot / kL2BytesPerUsOfBlock);
    } else {
        prediction.us += kSecondKernelUs + 2 * sums / kL2BytesPerUs;
    }
    return prediction;
}

std::vector<Config> split_tilings(const Problem& p, const std::vector<Config>& whole, const Target& target) {
    constexpr int kMostSerial = 8;  // each waits for the one before
    const int64_t steps = ceil_div(p.k, kStageDepth);
    std::vector<Config> split;
    if (p.entries() != 1) return split;
    for (const Config& c : whole) {
        if (!may_split(p, c, target)) continue;
        const int filling = int(target.units / std::max<int64_t>(ws_clusters(p, c), 1));
        const int most = int(std::min<int64_t>({filling, steps / 2, kMostPartsInL2}));
        const auto add = [&](int parts, SplitForm form) {
            split.push_back(c);
            split.back().split_k = parts, split.back().split_form = form;
        };
        if (most < 2) continue;
        add(2, SplitForm::serial);
        if (most > 2 && most <= kMostSerial) add(most, SplitForm::serial);
        add(most, SplitForm::workspace);
    }
    return split;
}

}  // namespace carat
