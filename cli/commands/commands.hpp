// SPDX-License-Identifier: Apache-2.0
// commands.hpp: the subcommands. Each add_* declares its flags; the function it gives back runs it and returns the exit
// code, or throws Failure or carat::Error.
#pragma once

#include <functional>

#include "exit_codes.hpp"

namespace CLI {
class App;
}

namespace carat::cli {

using Command = std::function<ExitCode()>;

Command add_doctor(CLI::App& app);
Command add_run(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_tune(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_ladder(CLI::App& app);
Command add_list(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_models(CLI::App& app);
Command add_cache(CLI::App& app);
Command add_pack(CLI::App& app);
Command add_prepare(CLI::App& app);
Command add_demo(CLI::App& app);

}  // namespace carat::cli
