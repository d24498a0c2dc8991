// SPDX-License-Identifier: Apache-2.0
#include "tuning_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "problem_flags.hpp"

namespace carat::cli {
namespace {

bool same_place(const Json& x, const Json& y) {
    return member(x, "problem") == member(y, "problem") && member(x, "device") == member(y, "device");
}

auto order_of(const Json& row) {
    const Json& problem = member(row, "problem");
    return std::make_tuple(member(row, "device").dump(), text_at(member(problem, "a"), "dtype"),
                           number_at(problem, "n", 0), number_at(problem, "k", 0), number_at(problem, "m", 0),
                           problem.dump());
}

// Which of two rows of one problem and device is the better knowledge.
auto age_of(const Json& row) {
    return std::make_tuple(number_at(row, "kernels", 0), text_at(member(row, "provenance"), "date"));
}

double median_of(std::vector<double> values) {
    if (values.empty()) return NAN;
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Worst {
    double value = -1;
    std::string name;
    void see(double other, const Json& row) {
        if (other <= value) return;
        value = other;
        name = row_name(row);
    }
};

}  // namespace

std::vector<Json> read_tuning_rows(const std::string& path, bool must_exist) {
    Text text;
    const carat_status status = carat_tuning_read(path.c_str(), text.out());
    if (status == CARAT_NOT_INITIALIZED && !must_exist) return {};
    if (status != CARAT_SUCCESS) fail(kInputOutput, "{}", carat_last_error());
    const Json file = parse_json(text.str(), "the tuning database");
    const Json& skipped = member(file, "skipped");
    if (!skipped.empty()) {
        const std::string first = skipped[0].get<std::string>();
        if (first.starts_with("all of it"))
            fail(kInputOutput, "{} is no tuning database ({}): correct it, or move it away", one_line(path),
                 one_line(first));
        complain(fmt::format("{}: left out {}{}", one_line(path), one_line(first),
                             skipped.size() > 1 ? fmt::format(" (and {} more rows)", skipped.size() - 1) : ""));
    }
    const Json& rows = member(file, "rows");
    return {rows.begin(), rows.end()};
}

std::string tuning_text(std::vector<Json> rows) {
    std::stable_sort(rows.begin(), rows.end(), [](const Json& x, const Json& y) { return order_of(x) < order_of(y); });
    std::string text = "{\"schema\": \"carat.tuning/1\", \"rows\": [\n";
    for (size_t i = 0; i < rows.size(); ++i)
        text += rows[i].dump(-1, ' ', true, Json::error_handler_t::replace) + (i + 1 < rows.size() ? ",\n" : "\n");
    return text + "]}\n";
}

void write_tuning_rows(const std::string& path, const std::vector<Json>& rows) {
    std::error_code error;
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);  // OutputFile says what is wrong
    OutputFile file(path, "the tuning database");
    file.commit(tuning_text(rows));
}

const Json* find_row(const std::vector<Json>& rows, const Json& problem, const Json& device, int64_t kernels) {
    for (const Json& row : rows)
        if (member(row, "problem") == problem && member(row, "device") == device && member(row, "kernels") == kernels)
            return &row;
    return nullptr;
}

void put_row(std::vector<Json>& rows, Json row) {
    const auto place = std::find_if(rows.begin(), rows.end(), [&](const Json& old) { return same_place(old, row); });
    if (place == rows.end())
        rows.push_back(std::move(row));
    else
        *place = std::move(row);
}

std::vector<Json> merge_rows(const std::vector<std::vector<Json>>& files) {
    std::vector<Json> merged;
    for (const auto& rows : files)
        for (const Json& row : rows) {
            const auto old =
                std::find_if(merged.begin(), merged.end(), [&](const Json& x) { return same_place(x, row); });
            if (old == merged.end() || age_of(*old) <= age_of(row)) put_row(merged, row);
        }
    return merged;
}

TuneSummary summarize_rows(const std::vector<Json>& rows) {
    std::vector<double> losses, errors;
    Worst loss, error;
    for (const Json& row : rows) {
        const Json& own = member(row, "own");
        const double best_us = number_at(row, "us", NAN), us = number_at(own, "us", NAN);
        if (!std::isfinite(us) || !std::isfinite(best_us)) continue;
        losses.push_back(us / best_us - 1);
        loss.see(losses.back(), row);
        const double predicted = number_at(own, "predicted_us", NAN);
        if (!std::isfinite(predicted)) continue;
        errors.push_back(std::fabs(predicted / us - 1));
        error.see(errors.back(), row);
    }
    if (losses.empty()) return {};
    const auto close = std::count_if(losses.begin(), losses.end(), [](double x) { return x <= 0.05; });
    return {.problems = losses.size(),
            .within_5_percent = double(close) / double(losses.size()),
            .median_loss = median_of(losses),
            .worst_loss = loss.value,
            .median_error = median_of(errors),
            .worst_error = errors.empty() ? NAN : error.value,
            .worst_loss_problem = loss.name,
            .worst_error_problem = error.name};
}

Json TuneSummary::json() const {
    return {{"problems", problems},
            {"within_5_percent", maybe(within_5_percent)},
            {"median_loss", maybe(median_loss)},
            {"worst_loss", maybe(worst_loss)},
            {"worst_loss_problem", maybe(worst_loss_problem)},
            {"median_prediction_error", maybe(median_error)},
            {"worst_prediction_error", maybe(worst_error)},
            {"worst_prediction_error_problem", maybe(worst_error_problem)}};
}

std::string TuneSummary::text() const {
    if (problems == 0) return "";
    return fmt::format(
        "Over {} problems the library's own choice is within 5 % of the best in {:.0f} %, slower by {:.1f} % in the "
        "median and by {:.1f} % at worst ({}).\nIts predicted time is off by {:.1f} % in the median and by {:.1f} % at "
        "worst ({}).\n",
        problems, 100 * within_5_percent, 100 * median_loss, 100 * worst_loss, worst_loss_problem, 100 * median_error,
        100 * worst_error, worst_error_problem);
}

std::string row_name(const Json& row) {
    return shape_name(parse_problem(member(row, "problem").dump()));
}

}  // namespace carat::cli
