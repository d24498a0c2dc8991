#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""decode_report.py FILE...: what results of `carat bench` say of few rows. For M up to 64 and from 96 to 256: the time of the best peer
and the floor over our time, the geometric mean and the least; where more rows take 5 % less time, for each N x K; and how far
predicted times lie from measured ones."""
import json
import math
import statistics
import sys

RANGES = (("M <= 64", 1, 64), ("M 96..256", 96, 256))
FALL = 0.05  # less than that is noise


class Stop(Exception):
    """A sentence for the user."""


def shape_of(result):
    return f"{result['m']} x {result['n']} x {result['k']}"


def best_peer_us(result):
    times = [peer["us"] for peer in (result.get("peers") or {}).values() if peer and peer.get("us")]
    return min(times, default=None)


def spread(name, ratios):
    """One line on (ratio, problem) pairs."""
    if not ratios:
        return f"{name}: none was timed"
    mean = math.exp(statistics.mean(math.log(ratio) for ratio, _ in ratios))
    least, where = min(ratios)
    return f"{name}: {mean:.3f} in the geometric mean over {len(ratios)}, {least:.3f} at least ({where})"


def ratios_of(results, first, last):
    """(best peer over ours, floor over ours) of the problems with `first` to `last` rows."""
    peers, floors = [], []
    for result in results:
        if not first <= result["m"] <= last:
            continue
        for ratios, us in ((peers, best_peer_us(result)), (floors, result.get("floor_us"))):
            if us:
                ratios.append((us / result["us"], shape_of(result)))
    return peers, floors


def falls(results):
    """Sentences on where the next larger M of the same weights takes less time."""
    weights, found = {}, []
    for result in results:
        weights.setdefault((result["n"], result["k"], result["dtype"], result["layout"]), []).append(result)
    for same in weights.values():
        same.sort(key=lambda result: result["m"])
        for few, many in zip(same, same[1:]):
            if many["m"] > few["m"] and many["us"] < (1 - FALL) * few["us"]:
                found.append(f"{shape_of(few)} takes {few['us']:.3g} us ({few['kernel']}), and M = {many['m']} {many['us']:.3g} us ({many['kernel']})")
    return found


def prediction(results):
    errors = [(abs(r["predicted_us"] / r["us"] - 1), r) for r in results if r.get("predicted_us")]
    if not errors:
        return "predicted over measured: nothing was predicted"
    worst, where = max(errors, key=lambda pair: pair[0])
    return (f"predicted over measured: off by {100 * statistics.median(error for error, _ in errors):.1f} % in the median, {100 * worst:.1f} % at most "
            f"({shape_of(where)}: {where['predicted_us']:.3g} us of {where['us']:.3g})")


def report(data):
    """Lines on one result of `carat bench`."""
    results = [result for result in data["results"] if result.get("us")]
    lines = []
    for name, first, last in RANGES:
        peers, floors = ratios_of(results, first, last)
        lines += [spread(f"{name}, best peer / ours", peers), spread(f"{name}, floor / ours", floors)]
    fallen = falls(results)
    lines.append(f"time falls by more than {100 * FALL:.0f} % with more rows: {len(fallen) or 'nowhere'}")
    return lines + [f"  {line}" for line in fallen] + [prediction(results)]


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise Stop(f"{path} cannot be read as JSON: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != "carat.bench/1":
        raise Stop(f"{path} has schema {schema!r}: give a result of `carat bench --json`, carat.bench/1")
    return data


def main():
    paths = sys.argv[1:]
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if paths else sys.stderr)
        return 0 if paths else 2
    try:
        for path in paths:
            print("\n".join([path, *(f"  {line}" for line in report(read(path)))]))
    except (Stop, KeyError) as error:
        print(f"decode_report: {f'{path} misses the field {error}' if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
