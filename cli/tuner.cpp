// SPDX-License-Identifier: Apache-2.0
#include "tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "timing.hpp"

namespace carat::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFinalists = 3;
constexpr size_t kSamplesOfARound = 3, kSamplesOfTheFinal = 15;
// More would tell medians apart that nobody can use.
constexpr size_t kMostSamples = 400;

using Field = std::vector<Contender*>;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

double quantile_of(std::vector<double> samples, double q) {
    std::sort(samples.begin(), samples.end());
    return quantile(samples, q);
}

// All in turn, so that a drift of the clocks meets them alike; at least `least` samples of each. False: stopped.
bool sample_in_turn(const Field& field, Ring& ring, double seconds, size_t least, const Effort& effort) {
    const auto begin = Clock::now();
    for (size_t count = 0; count < kMostSamples && (count < least || seconds_since(begin) < seconds); ++count)
        for (Contender* contender : field) {
            if (effort.stop()) return false;
            contender->samples.push_back(ring.sample(*contender));
        }
    return true;
}

void keep_faster_half(Field& field, const std::string& own) {
    std::stable_sort(field.begin(), field.end(),
                     [](const Contender* x, const Contender* y) { return x->us() < y->us(); });
    const size_t half = std::max((field.size() + 1) / 2, kFinalists);
    const auto kept_end = field.begin() + ptrdiff_t(half);
    const auto is_own = [&](const Contender* contender) { return contender->kernel == own; };
    if (const auto place = std::find_if(kept_end, field.end(), is_own); place != field.end())
        std::iter_swap(place, kept_end - 1);
    field.erase(kept_end, field.end());
}

// The fastest of the field, or the library's own choice where that is as fast within the noise: that of the steadier one, for a choice
// that is slower every other time is no better for it.
const Contender* decide(const Field& field, const Contender* own) {
    const Contender* best = *std::min_element(field.begin(), field.end(),
                                              [](const Contender* x, const Contender* y) { return x->us() < y->us(); });
    if (!own) return best;
    const double noise = std::min(best->us() * best->spread(), own->us() * own->spread());
    return own->us() - best->us() > noise ? best : own;
}

Field admitted(std::vector<Contender>& contenders, Ring& ring, const Effort& effort) {
    Field field;
    for (Contender& contender : contenders) {
        if (effort.stop()) return {};
        ring.admit(contender);
        if (contender.state != Contender::State::ready) continue;
        ring.sample(contender);  // the first one finds cold instructions and clocks
        field.push_back(&contender);
    }
    return field;
}

}  // namespace

double Contender::us() const {
    return samples.empty() ? NAN : quantile_of(samples, 0.5);
}
double Contender::spread() const {
    return samples.empty() ? NAN : (quantile_of(samples, 0.75) - quantile_of(samples, 0.25)) / us();
}

std::vector<Contender> prune(std::vector<Contender> all, const std::string& own, const Effort& effort) {
    double best = std::numeric_limits<double>::infinity();
    for (const Contender& contender : all) best = std::min(best, contender.predicted_us);
    std::vector<Contender> kept;
    for (Contender& contender : all) {
        const bool wanted = kept.size() < effort.least || contender.predicted_us <= effort.within * best;
        if ((wanted && kept.size() < effort.most) || contender.kernel == own) kept.push_back(std::move(contender));
    }
    return kept;
}

Verdict find_best(std::vector<Contender> contenders, const std::string& own, Ring& ring, const Effort& effort) {
    Verdict verdict = {std::move(contenders)};
    Field field = admitted(verdict.contenders, ring, effort);
    if (field.empty()) return verdict;
    const double rounds = std::max(1.0, std::ceil(std::log2(double(field.size()) / kFinalists)));
    while (field.size() > kFinalists) {
        if (!sample_in_turn(field, ring, effort.seconds / 2 / rounds, kSamplesOfARound, effort)) return verdict;
        keep_faster_half(field, own);
    }
    if (!sample_in_turn(field, ring, effort.seconds / 2, kSamplesOfTheFinal, effort)) return verdict;
    for (const Contender* contender : field)
        if (contender->kernel == own) verdict.own = contender;
    verdict.best = decide(field, verdict.own);
    return verdict;
}

}  // namespace carat::cli
