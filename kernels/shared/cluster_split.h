// SPDX-License-Identifier: Apache-2.0
// cluster_split.h: which block of a cluster whose blocks take parts of K of one tile adds which part of the tile up, and
// what of shared memory that takes; for kernels (mainloop/cluster_split.cuh), the host that sets it aside, and tests.
// A tile's accumulators leave in boxes (store/boxes.cuh). Box i of consumer c, of kBoxes each, is added up and stored by
// block (c kBoxes + i) mod kParts: all blocks take part in it, and each keeps the partial sums of its own boxes alone.
#pragma once

namespace carat_shared {

constexpr int box_owner(int consumer, int box, int boxes, int parts) {
    return (consumer * boxes + box) % parts;
}

// Boxes of a consumer that a block has at most.
constexpr int most_owned_boxes(int boxes, int parts) {
    return (boxes + parts - 1) / parts;
}

// Of a consumer: for each box that the block may own, what the other blocks send: of 128 threads so many accumulators each.
constexpr int exchange_bytes(int boxes, int box_accumulators, int parts) {
    return parts == 1 ? 0 : most_owned_boxes(boxes, parts) * (parts - 1) * box_accumulators * 128 * 4;
}

}  // namespace carat_shared
