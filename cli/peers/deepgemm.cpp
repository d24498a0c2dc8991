// SPDX-License-Identifier: Apache-2.0
#include "peers/deepgemm.hpp"

#include "peers/process.hpp"
#include "peers/worker.hpp"

namespace carat::cli {
namespace {

// Importing torch from a cold disk takes half a minute; DeepGEMM compiles a kernel with nvcc where it has none in its cache.
constexpr double kStartSeconds = 180, kPrepareSeconds = 180, kSampleSeconds = 30;
// A worker that keeps dying is left alone.
constexpr int kMostStarts = 3;

// Why DeepGEMM does not compute this; empty if it may.
std::string refusal(const carat_problem& p, const OperandSets& sets) {
    if (p.a.dtype != CARAT_BF16) return "DeepGEMM is timed in bf16 only";
    return plain_refusal("DeepGEMM", p, sets);
}

class Entry : public Contestant {
  public:
    explicit Entry(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
    ~Entry() override {
        try {
            if (worker_->alive()) worker_->ask({{"do", "release"}}, kSampleSeconds);
        } catch (const WorkerError&) {  // it holds memory, and is not asked again
        }
    }

    double sample() override {
        const double us = number_at(worker_->ask({{"do", "sample"}}, kSampleSeconds), "us", 0);
        if (!(us > 0)) throw WorkerError("its worker answered a sample without a time");
        return us;
    }

    bool verify(std::string* why_not) override {
        try {
            const Json answer = worker_->ask({{"do", "verify"}}, kPrepareSeconds);
            const double error = number_at(answer, "error_norm", NAN), bound = number_at(answer, "bound", NAN);
            if (error <= bound) return true;
            *why_not = fmt::format("its result differs from torch's: error {:.3g}, bound {:.3g}", error, bound);
        } catch (const WorkerError& problem) {
            *why_not = problem.what();
        }
        return false;
    }

  private:
    std::shared_ptr<Worker> worker_;
};

class DeepGemm : public Peer {
  public:
    explicit DeepGemm(const Arena& arena) : arena_(arena) {}

    bool start(std::string* why_not) {
        if (starts_ == kMostStarts) return *why_not = fmt::format("its worker ended {} times", starts_), false;
        ++starts_;
        const std::string chosen = variable("CARAT_DEEPGEMM_PYTHON");
        const std::string python = chosen.empty() ? "python3" : chosen;
        try {
            worker_ = std::make_shared<Worker>(std::vector<std::string>{python, "-c", worker_files()[0].text});
            version_ = text_at(worker_->ask({{"do", "start"}, {"device", arena_.device}}, kStartSeconds), "version");
            return true;
        } catch (const WorkerError& problem) {
            worker_.reset();
            return *why_not = fmt::format("{} ({} runs it: CARAT_DEEPGEMM_PYTHON names another Python)", problem.what(),
                                          python),
                   false;
        }
    }

    std::string version() const override { return version_; }

    std::unique_ptr<Contestant> prepare(const carat_problem& p, const OperandSets& sets,
                                        std::string* why_not) override {
        if (*why_not = refusal(p, sets); !why_not->empty()) return nullptr;
        if (!(worker_ && worker_->alive()) && !start(why_not)) return nullptr;
        try {
            auto entry = std::make_unique<Entry>(worker_);
            const Json question = {{"do", "prepare"}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"seed", arena_.seed}};
            entry->choice = text_at(worker_->ask(question, kPrepareSeconds), "choice", "its heuristic's choice");
            return entry;
        } catch (const WorkerError& problem) {
            return *why_not = problem.what(), nullptr;
        }
    }

  private:
    const Arena arena_;
    std::shared_ptr<Worker> worker_;
    std::string version_;
    int starts_ = 0;
};

}  // namespace

std::unique_ptr<Peer> open_deepgemm(const Arena& arena, std::string* why_not) {
    auto peer = std::make_unique<DeepGemm>(arena);
    if (!peer->start(why_not)) return nullptr;
    return peer;
}

}  // namespace carat::cli
