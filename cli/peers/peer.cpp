// SPDX-License-Identifier: Apache-2.0
#include "peers/peer.hpp"

#include <algorithm>
#include <cmath>

#include "peers/cublaslt.hpp"
#include "peers/cutlass.hpp"
#include "peers/deepgemm.hpp"

namespace carat::cli {
namespace {

struct Row {
    const char *name, *title;
    std::unique_ptr<Peer> (*open)(const Arena& arena, std::string* why_not);
};
constexpr Row kPeers[] = {
    {"cublaslt", "cuBLASLt", open_cublaslt},
    {"cutlass", "CUTLASS", open_cutlass},
    {"deepgemm", "DeepGEMM", open_deepgemm},
};

const Row& row_of(const std::string& name) {
    for (const Row& row : kPeers)
        if (name == row.name) return row;
    fail(kUsage, "--peer got \"{}\": it takes {}", one_line(name), cli::join(peer_names(), ", "));
}

}  // namespace

Arena arena_of(const MachineFlags& flags, const Context& context, const Stream& stream) {
    const std::string device = flags.device.empty() ? "0" : flags.device;
    return {context, stream, static_cast<int>(parse_integer(device, "--device", 0, 1023)), seed_of(flags)};
}

std::vector<std::string> peer_names() {
    std::vector<std::string> names;
    for (const Row& row : kPeers) names.emplace_back(row.name);
    return names;
}

std::string peer_title(const std::string& name) {
    return row_of(name).title;
}

std::vector<std::string> parse_peers(const std::vector<std::string>& given) {
    std::vector<std::string> names;
    for (const std::string& list : given)
        for (const std::string& name : split(list, ',')) {
            row_of(name);
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
    return names;
}

std::unique_ptr<Contestant> Peer::invite(const carat_problem& problem, const OperandSets& sets, std::string* why_not) {
    auto contestant = prepare(problem, sets, why_not);
    if (contestant && !contestant->verify(why_not)) return nullptr;
    return contestant;
}

std::string plain_refusal(const std::string& title, const carat_problem& p, const OperandSets& sets) {
    const carat_epilogue& e = p.epilogue;
    const bool epilogue = p.c.dtype != CARAT_NONE || e.bias != CARAT_BIAS_NONE || e.activation != CARAT_ACT_NONE ||
                          e.gate || e.clamp || e.amax || e.out_scale;
    if (p.mode != CARAT_SINGLE || p.sparsity != CARAT_DENSE) return title + " is timed on single dense problems only";
    if (p.a.dtype != p.b.dtype || p.a.dtype != p.d.dtype) return title + " is timed with A, B and D of one type only";
    if (p.a.order != CARAT_ROW_MAJOR || p.b.order != CARAT_COL_MAJOR || p.d.order != CARAT_ROW_MAJOR)
        return title + " is timed in layout nt with a row-major D only";
    if (epilogue || p.scale_a.recipe || p.scale_b.recipe || sets[0].alpha != 1)
        return title + " is timed without scales and epilogue only";
    if (p.m == 0 || p.n == 0 || p.k == 0) return title + " is timed on no empty problem";
    return "";
}

Sampler unless_it_fails(const Sampler& sampler, std::string* why_not) {
    return [sampler, why_not] {
        try {
            return sampler();
        } catch (const std::runtime_error& error) {
            *why_not = fmt::format("it failed while it was timed: {}", one_line(error.what()));
            return double(NAN);
        }
    };
}

Guest join(const std::string& name, const Arena& arena, Json& env) {
    const Row& row = row_of(name);
    Guest guest = {.name = name};
    if (arena.context.backend() != CARAT_BACKEND_CUDA)
        guest.left_out = fmt::format("{} runs on GPUs, and this run is on the CPU", row.title);
    else
        guest.peer = row.open(arena, &guest.left_out);
    if (!guest.peer) complain(fmt::format("peer {} is left out: {}", name, guest.left_out));
    env["peers"][name] = {{"version", guest.peer ? Json(guest.peer->version()) : Json()},
                          {"left_out", maybe(guest.left_out)}};
    return guest;
}

}  // namespace carat::cli
