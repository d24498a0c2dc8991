// SPDX-License-Identifier: Apache-2.0
// The tile walks: every tile of every matrix exactly once over all blocks, and the order that the raster is for.
#include "kernels/host_cuda.hpp"
// After the language.
#include <scheduler/linear_tiles.cuh>
#include <scheduler/raster_tiles.cuh>

#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <set>
#include <tuple>

namespace carat::test {
namespace {

using carat_kernel::ClusterPlace;
using carat_kernel::LinearTiles;
using carat_kernel::RasterTiles;
using carat_kernel::Tile;

template <int M, int N, int ClusterM, int ClusterN>
struct ConfigOf {
    static constexpr int kBM = M, kBN = N, kClusterM = ClusterM, kClusterN = ClusterN, kClusterK = 1, kGate = 0;
};

using Visits = std::map<std::tuple<int64_t, int64_t, int64_t>, int>;  // (batch, row, col) of a block's tile

// Of the block `rank` of each cluster.
template <class Config>
struct TilesOf {
    carat_shared::TileWalk walk;
    ClusterPlace<Config> place;
    RasterTiles<Config> tiles;

    TilesOf(int64_t m, int64_t n, int64_t batch, int strip, int rank = 0)
        : walk(carat_shared::make_tile_walk(m, n, batch, Config::kBM * Config::kClusterM,
                                            Config::kBN * Config::kClusterN, strip)),
          place(rank),
          tiles(walk, place) {}
    TilesOf(const TilesOf&) = delete;
    int count() const { return tiles.count(); }
    auto at(int index) const { return tiles.at(index); }
};

template <class Config>
Visits walk(int64_t m, int64_t n, int64_t batch, int strip) {
    Visits visits;
    for (int rank = 0; rank < Config::kClusterM * Config::kClusterN; ++rank) {
        const TilesOf<Config> tiles(m, n, batch, strip, rank);
        for (int index = 0; index < tiles.count(); ++index) {
            const auto tile = tiles.at(index);
            ++visits[{tile.batch, tile.row, tile.col}];
        }
    }
    return visits;
}

// Whole clusters cover D; what lies outside of it is clipped by the stores.
template <class Config>
void expect_covers(int64_t m, int64_t n, int64_t batch, int strip) {
    constexpr int64_t kRows = Config::kBM * Config::kClusterM, kCols = Config::kBN * Config::kClusterN;
    const Visits visits = walk<Config>(m, n, batch, strip);
    const int64_t rows = (m + kRows - 1) / kRows * Config::kClusterM,
                  cols = (n + kCols - 1) / kCols * Config::kClusterN;
    EXPECT_EQ(int64_t(visits.size()), rows * cols * batch) << m << " x " << n;
    for (const auto& [place, count] : visits) {
        EXPECT_EQ(count, 1);
        EXPECT_EQ(std::get<1>(place) % Config::kBM, 0);
        EXPECT_EQ(std::get<2>(place) % Config::kBN, 0);
        EXPECT_LT(std::get<1>(place), rows * Config::kBM);
        EXPECT_LT(std::get<2>(place), cols * Config::kBN);
    }
}

TEST(RasterTiles, EveryTileOnce) {
    for (const int64_t m : {1, 128, 257, 2048, 2049, 5000})
        for (const int64_t n : {1, 256, 300, 4097})
            for (const int64_t batch : {1, 3})
                for (const int strip : {1, 8, 100, INT_MAX, -1, -3, -INT_MAX}) {
                    expect_covers<ConfigOf<128, 256, 2, 1>>(m, n, batch, strip);
                    expect_covers<ConfigOf<256, 128, 1, 2>>(m, n, batch, strip);
                    expect_covers<ConfigOf<64, 32, 2, 2>>(m, n, batch, strip);
                    expect_covers<ConfigOf<256, 192, 1, 1>>(m, n, batch, strip);
                }
}

TEST(RasterTiles, BlocksOfAClusterAreNeighbours) {
    using Rows = ConfigOf<128, 256, 2, 1>;
    using Columns = ConfigOf<256, 128, 1, 2>;
    const TilesOf<Rows> upper(1000, 1000, 1, 8), lower(1000, 1000, 1, 8, 1);
    const TilesOf<Columns> left(1000, 1000, 1, 8), right(1000, 1000, 1, 8, 1);
    for (int index = 0; index < upper.count(); ++index) {
        EXPECT_EQ(upper.at(index).row + 128, lower.at(index).row);
        EXPECT_EQ(upper.at(index).col, lower.at(index).col);
    }
    for (int index = 0; index < left.count(); ++index) {
        EXPECT_EQ(left.at(index).row, right.at(index).row);
        EXPECT_EQ(left.at(index).col + 128, right.at(index).col);
    }
}

// The lines of A and B that the 66 clusters of an H200 need at once, in elements: 4352 where they are a square, more where
// one strip ends and the next begins.
TEST(RasterTiles, WhatRunsTogetherIsNearlySquare) {
    const TilesOf<ConfigOf<128, 256, 2, 1>> tiles(8192, 8192, 1, 8);
    const LinearTiles<256, 256> lines(8192, 8192, 1);
    const auto footprint = [](const auto& order, int first) {
        std::set<int64_t> rows, cols;
        for (int index = first; index < first + 66; ++index) {
            rows.insert(order.at(index).row / 256);
            cols.insert(order.at(index).col / 256);
        }
        return int64_t(rows.size() + cols.size()) * 256;
    };
    int64_t raster = 0, linear = 0;
    for (int first = 0; first + 66 <= tiles.count(); first += 66) {
        raster = std::max(raster, footprint(tiles, first));
        linear = std::max(linear, footprint(lines, first));
    }
    EXPECT_LE(raster, 6400);
    EXPECT_GE(linear, 8900);
}

// Who shares a tile with whom, and whose stages a block's releases reach: each block of its row and column once.
TEST(ClusterPlace, RowsAndColumns) {
    using Square = ClusterPlace<ConfigOf<64, 64, 2, 2>>;
    const Square place(1);  // below the first one
    EXPECT_EQ(place.row, 1);
    EXPECT_EQ(place.col, 0);
    EXPECT_EQ(place.same_row(), 0b1010);
    EXPECT_EQ(place.same_col(), 0b0011);
    std::set<int> readers;
    for (int i = 0; i < Square::kReaders; ++i) readers.insert(place.reader(i));
    EXPECT_EQ(readers, (std::set<int>{0, 1, 3}));
    using Row = ClusterPlace<ConfigOf<64, 64, 1, 4>>;
    EXPECT_EQ(Row(2).same_row(), 0b1111);
    EXPECT_EQ(Row(2).same_col(), 0b0100);
}

TEST(LinearTiles, CountsBeyond32Bits) {
    const LinearTiles<32, 32> tiles(int64_t(1) << 30, int64_t(1) << 20, 4);
    EXPECT_EQ(tiles.count, (int64_t(1) << 40) * 4);
    const Tile last = tiles.at(tiles.count - 1);
    EXPECT_EQ(last.row, (int64_t(1) << 30) - 32);
    EXPECT_EQ(last.col, (int64_t(1) << 20) - 32);
    EXPECT_EQ(last.batch, 3);
}

}  // namespace
}  // namespace carat::test
