// SPDX-License-Identifier: Apache-2.0
// peer.hpp: another library as a contestant of `carat bench` and `carat ladder`: on the same problem it enters the best of its
// own algorithms, names it, and is timed in turn with ours once its result is known to be right.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "timing.hpp"

namespace carat::cli {

// What a peer runs on; it outlives the peer.
struct Arena {
    const Context& context;
    const Stream& stream;
    int device = 0;
    uint64_t seed = 0;
};
Arena arena_of(const MachineFlags& flags, const Context& context, const Stream& stream);

// A peer's entry for one problem.
class Contestant {
  public:
    virtual ~Contestant() = default;
    // Microseconds of one execution.
    virtual double sample() = 0;
    // Is the result right? A sentence if not.
    virtual bool verify(std::string* why_not) = 0;
    // One execution on operands of its problem, for as long as the peer lives; empty where it computes in another process.
    virtual Repeater::Enqueue enqueue() const { return {}; }
    std::string choice;  // "128x256x64 cooperative 2x1 swizzle 4 along m (best of 39)"
};

class Peer {
  public:
    virtual ~Peer() = default;
    virtual std::string version() const = 0;
    // The best of its algorithms, ready to be timed. Null with a sentence where it does not compute this problem.
    virtual std::unique_ptr<Contestant> prepare(const carat_problem& problem, const OperandSets& sets,
                                                std::string* why_not) = 0;
    // The same, if its result is right: a fast wrong one is no contestant.
    std::unique_ptr<Contestant> invite(const carat_problem& problem, const OperandSets& sets, std::string* why_not);
};

// Why a peer that multiplies plainly - one dense product in layout nt, no epilogue - does not compute this; empty if it may.
std::string plain_refusal(const std::string& title, const carat_problem& problem, const OperandSets& sets);

// "cublaslt", "cutlass", "deepgemm": the values of --peer.
std::vector<std::string> peer_names();
// As people write it: "cuBLASLt".
std::string peer_title(const std::string& name);
// "cublaslt,cutlass", of one or several --peer: each once, in the order given.
std::vector<std::string> parse_peers(const std::vector<std::string>& given);

// A peer as it takes part in a run; `peer` is null where it is left out.
struct Guest {
    std::string name;
    std::unique_ptr<Peer> peer;
    std::string left_out;  // the reason, empty if it is there
};
// `sampler`, of a peer that leaves the race where it fails: NaN, and the reason.
Sampler unless_it_fails(const Sampler& sampler, std::string* why_not);
// Opens a peer, notes it in the environment of a result, and says on stderr where it is left out.
Guest join(const std::string& name, const Arena& arena, Json& env);

}  // namespace carat::cli
