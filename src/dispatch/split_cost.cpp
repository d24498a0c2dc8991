// SPDX-License-Identifier: Apache-2.0
#include "dispatch/split_cost.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch/ladder.hpp"
#include "dispatch/split_k.hpp"
#include "dispatch/ws_cost.hpp"
#include "dispatch/ws_tiles.hpp"

namespace carat {
namespace {

// The fill of the words, and that the kernel then starts after it and not beside the one before; a second launch, beside the end of the
// first; from a part to the next one, beside the sums themselves. Fitted by eye to 240 timings of M = 64 to 256: off by 1 % in the
// median in a workspace, by 0.3 us one after the other. Stream-K is taken to start sooner; 12 timings are 16 % below what is predicted.
constexpr double kFillUs = 3.3, kFillOfStreamKUs = 1.3, kSecondKernelUs = 2, kHandOnUs = 1;
constexpr double kL2BytesPerUs = 5e6, kL2BytesPerUsOfBlock = 0.1e6;

// So much longer stream-K is taken to be, which was not measured where waves are many: it is chosen only where it wins by more.
constexpr double kDoubtOfStreamK = 1.05;

// K in parts is a batch of products of a part's depth, each with operands of its own.
Problem batch_of_parts(const Problem& p, const Config& c) {
    const int parts = parts_in_l2(c);
    Problem batch = without_epilogue(p);
    batch.mode = CARAT_BATCHED;
    batch.k = std::min(round_up(ceil_div(p.k, parts), c.bk), p.k);
    batch.batch = p.entries() * parts;
    for (carat_matrix* x : {&batch.a, &batch.b, &batch.d}) x->batch_stride = std::max<int64_t>(x->batch_stride, 64);
    return batch;
}

// Of the tiles the most common, for each is ranked in each form.
bool is_common(const Config& c) {
    return c.bm % kStripRows == 0 && c.bn % 64 == 0 && c.bk == kStageDepth;
}

bool may_split(const Problem& p, const Config& c, const Target& target) {
    return is_common(c) && 2 * ws_clusters(p, c) <= target.units && !why_not_split_in_l2(p, c, SplitForm::serial);
}

// Where a good part of the last wave is idle, and that is a good part of the time.
bool may_stream_k(const Problem& p, const Config& c, const Target& target) {
    constexpr double kMostWaves = 8, kMostFull = 0.75;
    const double waves = double(ws_clusters(p, c)) / stream_k_clusters(c, target);
    const double last = waves - std::floor(waves);
    return is_common(c) && waves < kMostWaves && last > 0 && last < kMostFull &&
           !why_not_split_in_l2(p, c, SplitForm::stream_k);
}

// How often a tile's sum is handed on, at most. Once where a cluster has the steps of a whole tile or more: its last steps begin a tile
// and wait for nobody. Of fewer tiles than clusters several have the middle of one, and each waits for the one before.
int64_t hand_ons(const Problem& p, const Config& c, const Target& target) {
    const int64_t clusters = stream_k_clusters(c, target), tiles = std::max<int64_t>(ws_clusters(p, c), 1);
    return tiles > clusters ? 1 : ceil_div(clusters, tiles);
}

Prediction stream_k_predict(const Problem& p, const Config& c, double slot_bytes, const Target& target) {
    Prediction prediction = ws_predict(p, c, target);
    prediction.us +=
        kFillOfStreamKUs + double(hand_ons(p, c, target)) * (kHandOnUs + 2 * slot_bytes / kL2BytesPerUsOfBlock);
    return prediction;
}

Prediction parts_predict(const Problem& p, const Config& c, double sums, const Target& target) {
    Prediction prediction = ws_predict(batch_of_parts(p, c), undivided(c), target);
    if (serial_parts(c) > 1) {
        const double slot = sums / double(std::max<int64_t>(ws_clusters(p, c), 1));
        prediction.us += kFillUs + (serial_parts(c) - 1) * (kHandOnUs + 2 * slot / kL2BytesPerUsOfBlock);
    } else {
        prediction.us += kSecondKernelUs + 2 * sums / kL2BytesPerUs;
    }
    return prediction;
}

}  // namespace

Prediction split_predict(const Problem& p, const Config& c, const Target& target) {
    const double sums = double(split_workspace(p, c, ws_block(c)).sums_bytes);  // of all slots
    Prediction prediction =
        is_stream_k(c) ? stream_k_predict(p, c, sums / kMostStreamKBlocks, target) : parts_predict(p, c, sums, target);
    if (is_stream_k(c)) prediction.us *= kDoubtOfStreamK;
    return prediction;
}

std::vector<Config> split_tilings(const Problem& p, const std::vector<Config>& whole, const Target& target) {
    constexpr int kMostSerial = 8;  // each waits for the one before
    const int64_t steps = ceil_div(p.k, kStageDepth);
    std::vector<Config> split;
    if (p.entries() != 1) return split;
    for (const Config& c : whole) {
        const auto add = [&](int parts, SplitForm form) {
            split.push_back(c);
            split.back().split_k = parts, split.back().split_form = form;
        };
        if (may_stream_k(p, c, target)) add(0, SplitForm::stream_k);
        if (!may_split(p, c, target)) continue;
        const int filling = int(target.units / std::max<int64_t>(ws_clusters(p, c), 1));
        const int most = int(std::min<int64_t>({filling, steps / 2, kMostPartsInL2}));
        if (most < 2) continue;
        add(2, SplitForm::serial);
        if (most > 2 && most <= kMostSerial) add(most, SplitForm::serial);
        add(most, SplitForm::workspace);
    }
    return split;
}

}  // namespace carat
