// SPDX-License-Identifier: Apache-2.0
// tuning_db.hpp: measured choices of kernels: the database shipped with the library, and the user's over it. A lookup is one
// hash of the problem's description. A bad or stale row never fails a plan: it is left out, with one warning for its file.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/tuning_file.hpp"

namespace carat {

// Where a context reads its choices; found when it is made, read at its first plan.
struct TuningPlaces {
    bool enabled = true;
    std::string user;         // the file over the shipped ones; "" if there is no place for one
    bool must_exist = false;  // it was asked for by name
};
// `tuning` as in carat_context_options: "off", or a file; null: CARAT_TUNING of the same values, else
// $XDG_DATA_HOME/carat/tuning.json, ~/.local/share/carat/tuning.json.
TuningPlaces find_tuning(const char* tuning);

struct TunedChoice {
    Config config;
    double us = 0, spread = 0;
    std::string file;
    size_t row = 0;  // in the file, from 1
    // Of the problem that was measured.
    int64_t m = 0;
    carat_dtype dtype = CARAT_NONE;
    bool of_other_type = false;
};

class TuningDb {
  public:
    struct File {
        std::string name;
        size_t rows = 0;  // of this device, and used
        std::vector<std::string> skipped;
    };

    TuningDb() = default;
    // Reads the files and warns, once a file, of what was left out.
    TuningDb(const TuningPlaces& places, const Target& target, Validate validate);

    // What was measured of the problem, or of the same one of the other type of 16 bits: its bytes and its instructions are as many. Or else of the one with the next more rows of D, where these are few: up to 256 and less
    // than twice as many. Their time is that of the weights' bytes, and what is the fastest for 16 rows is for 13, too.
    // Null if there is none. Safe from many threads.
    const TunedChoice* find(const Problem& problem) const;
    size_t size() const { return choices_.size(); }
    const std::vector<File>& files() const { return files_; }

    // Later ones win. Public for tests.
    void add(const std::string& name, std::string_view text, const Target& target, Validate validate);

  private:
    void put(const Problem& problem, TunedChoice choice);
    const TunedChoice* find_more_rows(Problem problem) const;

    std::unordered_map<std::string, TunedChoice> choices_;  // by describe(problem)
    std::unordered_map<std::string, std::set<int64_t>>
        few_rows_;  // M that were measured, by describe(problem of no rows)
    std::vector<File> files_;
};

// One warning in the life of the process: the kernel of a choice is no longer there for its problem.
void warn_stale(const TunedChoice& choice, const Problem& problem);

}  // namespace carat
